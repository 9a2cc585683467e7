package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Pruned tells what Prune did.
type Pruned struct {
	Removed  []int    // sequence numbers
	InUse    []int    // kept although old: a running job or restart holds them
	Needed   []int    // kept although old: images of later ones build on them
	Programs []string // paths of kept programs that nobody refers to any more, removed
}

// Prune removes the snapshots of a job but for the newest keep, which must be
// at least 1. Those that somebody holds stay, those that any one builds on that
// stays, and those whose schema cannot be read, which the error names.
func (c *Catalogue) Prune(job string, keep int) (Pruned, error) {
	var done Pruned
	if keep < 1 {
		return done, fmt.Errorf("prune job %s: at least one snapshot is kept, not %d", job, keep)
	}
	if _, err := os.Stat(c.JobDir(job)); err != nil {
		return done, fmt.Errorf("prune job %s: %w", job, ErrNotFound)
	}
	l, err := lockJob(c.JobDir(job))
	if err != nil {
		return done, fmt.Errorf("prune job %s: %w", job, err)
	}
	defer l.Close()
	seqs, err := c.sequences(job)
	if err != nil {
		return done, fmt.Errorf("prune job %s: %w", job, err)
	}
	p := &pruner{c: c, keep: keep, needed: map[int]bool{}}
	// The newest first: what a crash leaves has all that it builds on.
	for _, seq := range slices.Backward(seqs) {
		p.prune(c.dir(job, seq), seq)
	}
	p.Programs, err = c.sweepPrograms(job)
	p.errs = append(p.errs, err)
	for _, list := range [][]int{p.Removed, p.InUse, p.Needed} {
		slices.Sort(list)
	}
	return p.Pruned, errors.Join(p.errs...)
}

// pruner goes through the snapshots of a job, the newest first.
type pruner struct {
	Pruned
	c       *Catalogue
	keep    int          // how many more stay for their age
	needed  map[int]bool // what those that stay build on
	unknown bool         // one was met that may build on anything
	errs    []error
}

func (p *pruner) prune(dir string, seq int) {
	s, err := Load(dir)
	switch {
	case errors.Is(err, ErrNotCommitted), errors.Is(err, ErrNotFound):
		return
	case err != nil:
		p.errs = append(p.errs, err)
		// A damaged one can never be restored. One that only this gorun or this
		// user cannot read can, by another: nothing older goes.
		p.unknown = p.unknown || !errors.Is(err, ErrSchema)
		return
	case p.keep > 0:
		p.keep--
	case p.unknown, p.needed[seq]:
		p.Needed = append(p.Needed, seq)
	default:
		busy, err := removeUnlessHeld(dir, nil)
		if err == nil && !busy {
			p.Removed = append(p.Removed, seq)
			return
		}
		if err != nil {
			p.errs = append(p.errs, fmt.Errorf("prune %s: %w", dir, err))
		} else {
			p.InUse = append(p.InUse, seq)
		}
	}
	for _, base := range s.Schema.Bases() {
		p.needed[base] = true
	}
}

// removeUnlessHeld removes a snapshot's folder, unless somebody writes or uses
// it, or it is not such a folder (any more): its writer may have committed and
// died before the lock was got. The caller holds the job's lock.
func removeUnlessHeld(dir string, such func(dir string) bool) (busy bool, err error) {
	f, busy, err := flock(filepath.Join(dir, lockFile), unix.LOCK_EX|unix.LOCK_NB)
	if busy || err != nil {
		return busy, err
	}
	defer f.Close()
	if such != nil && !such(dir) {
		return true, nil
	}
	return false, remove(dir)
}

// Sweep removes what crashes have left of snapshots of a job that were never
// committed, or half removed, and of programs kept for them, and returns the
// folders and programs. What is being written just now is locked and stays.
func (c *Catalogue) Sweep(job string) ([]string, error) {
	if _, err := os.Stat(c.JobDir(job)); err != nil {
		return nil, nil
	}
	l, err := lockJob(c.JobDir(job))
	if err != nil {
		return nil, fmt.Errorf("sweep job %s: %w", job, err)
	}
	defer l.Close()
	seqs, err := c.sequences(job)
	if err != nil {
		return nil, fmt.Errorf("sweep job %s: %w", job, err)
	}
	var gone []string
	var errs []error
	for _, seq := range seqs {
		dir := c.dir(job, seq)
		if !isLeftover(dir) {
			continue
		}
		busy, err := removeUnlessHeld(dir, isLeftover)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", dir, err))
		} else if !busy {
			gone = append(gone, dir)
		}
	}
	programs, err := c.sweepPrograms(job)
	return append(gone, programs...), errors.Join(append(errs, err)...)
}

// SweepAll is Sweep for every job in the catalogue.
func (c *Catalogue) SweepAll() ([]string, error) {
	jobs, err := c.Jobs()
	errs := []error{err}
	var gone []string
	for _, job := range jobs {
		g, err := c.Sweep(job)
		gone, errs = append(gone, g...), append(errs, err)
	}
	return gone, errors.Join(errs...)
}

// isLeftover tells whether the folder holds nothing but what a snapshot holds
// before its schema is there. A folder with anything else in it is not ours.
func isLeftover(dir string) bool {
	es, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(es, func(e fs.DirEntry) bool {
		n := e.Name()
		ours := n == lockFile || strings.HasSuffix(n, partSuffix) || strings.HasPrefix(n, "rank-") && strings.HasSuffix(n, ".img")
		return !ours || !e.Type().IsRegular()
	})
}
