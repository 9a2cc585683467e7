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

// Hold keeps a snapshot from being pruned while it lives, in this process or,
// once this one is dead, no more.
type Hold struct{ f *os.File }

// Hold protects the snapshot for the restart that uses it. Errors: ErrNotFound
// if it was pruned meanwhile. On a read-only file system nothing can be pruned,
// nor locked if the lock's file is missing: the Hold is then empty.
func (s *Snapshot) Hold() (*Hold, error) {
	f, busy, err := flock(filepath.Join(s.Dir, lockFile), unix.LOCK_SH|unix.LOCK_NB)
	switch {
	case errors.Is(err, fs.ErrNotExist) && readOnly(s.Dir):
		return &Hold{}, nil
	case errors.Is(err, fs.ErrNotExist), busy:
		return nil, fmt.Errorf("%s: %w: it is being removed", s.Dir, ErrNotFound)
	case err != nil:
		return nil, err
	}
	// It may have gone between its being found and being locked.
	if _, err := os.Lstat(s.SchemaPath()); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w: it has been removed", s.Dir, ErrNotFound)
	}
	return &Hold{f}, nil
}

func readOnly(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// Release ends the protection. A nil or released Hold does nothing.
func (h *Hold) Release() {
	if h != nil && h.f != nil {
		h.f.Close()
		h.f = nil
	}
}

// Pruned tells what Prune did.
type Pruned struct {
	Removed []int // sequence numbers
	InUse   []int // kept although old: a running job or restart holds them
}

// Prune removes the snapshots of a job but for the newest keep, which must be
// at least 1. Those that somebody holds stay, and so do those whose schema
// cannot be read, which the error names.
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
	all, listErr := c.List(job)
	errs := []error{listErr}
	for _, s := range all[:max(0, len(all)-keep)] {
		busy, err := removeUnlessHeld(s.Dir)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("prune %s: %w", s.Dir, err))
		case busy:
			done.InUse = append(done.InUse, s.Schema.Sequence)
		default:
			done.Removed = append(done.Removed, s.Schema.Sequence)
		}
	}
	return done, errors.Join(errs...)
}

// removeUnlessHeld removes a snapshot's folder, unless somebody writes or uses
// it. The caller holds the job's lock.
func removeUnlessHeld(dir string) (busy bool, err error) {
	f, busy, err := flock(filepath.Join(dir, lockFile), unix.LOCK_EX|unix.LOCK_NB)
	if busy || err != nil {
		return busy, err
	}
	defer f.Close()
	return false, remove(dir)
}

// Sweep removes what crashes have left of snapshots of a job that were never
// committed, or half removed, and returns the folders. What is being written
// just now is locked and stays.
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
		busy, err := removeUnlessHeld(dir)
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", dir, err))
		} else if !busy {
			gone = append(gone, dir)
		}
	}
	return gone, errors.Join(errs...)
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
