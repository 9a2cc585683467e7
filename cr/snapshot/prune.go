package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Pruned tells what Prune did.
type Pruned struct {
	Removed  []int     // sequence numbers
	InUse    []int     // kept although old: a running job or restart holds them
	Needed   []int     // kept although old: images of later ones build on them
	Intact   []int     // kept although old: the newest that is intact, because those after it are damaged
	Dropped  []Dropped // copies of snapshots of which other copies stay
	Programs []string  // paths of kept programs that nobody refers to any more, removed
}

// Dropped is a copy that Prune has removed.
type Dropped struct {
	Seq   int
	Place Place
}

// Prune removes the snapshots of a job except the newest keep, which must be at least 1. Where
// snapshots have copies in several places, the newest keep of each place stay there, so one in a
// weak place never costs one in a strong one. A snapshot also stays if a process holds it, if one
// that stays builds on it, or if its schema cannot be read. The error names the latter. The newest
// intact one stays as well: Prune reads snapshots, the newest first, until one verifies. If none
// does, nothing is removed.
func (c *Catalogue) Prune(job string, keep int) (Pruned, error) {
	return c.prune(job, keepN(keep), verifyLasting)
}

// PruneChecked is Prune for the head of a job that has just written the newest snapshot. It looks at images
// with Check, and does not read them again.
func (c *Catalogue) PruneChecked(job string, keep int) (Pruned, error) {
	return c.prune(job, keepN(keep), (*Snapshot).Check)
}

// keepN keeps as many everywhere but in memory, where the job alone removes what it does not need.
func keepN(n int) func(Place) int {
	return func(p Place) int {
		if p.Kind == store.KindMem {
			return math.MaxInt
		}
		return n
	}
}

// verifyLasting verifies the copies that are not in the memory of a running job: those only the job can read.
func verifyLasting(s *Snapshot) error {
	if s = s.Lasting(); s == nil {
		return errInMemory
	}
	return s.Verify(nil)
}

var errInMemory = errors.New("it is in the memory of a running job")

// PruneLevels is PruneChecked with a number for each place. 0 is for a place where all stay.
func (c *Catalogue) PruneLevels(job string, keep func(Place) int) (Pruned, error) {
	return c.prune(job, unlimited(keep), (*Snapshot).Check)
}

// unlimited takes 0 for all.
func unlimited(keep func(Place) int) func(Place) int {
	return func(p Place) int {
		if n := keep(p); n > 0 {
			return n
		}
		return math.MaxInt
	}
}

func (c *Catalogue) prune(job string, keep func(Place) int, intact func(*Snapshot) error) (Pruned, error) {
	return c.pruneBut(nil, job, keep, intact)
}

// pruneBut is the common part. Those that spare, if it is not nil, tells stay and do not count.
func (c *Catalogue) pruneBut(spare func(*Snapshot) bool, job string, keep func(Place) int, intact func(*Snapshot) error) (Pruned, error) {
	var done Pruned
	if n := keep(Beside); n < 1 {
		return done, fmt.Errorf("prune job %s: at least one snapshot is kept, not %d", job, n)
	}
	if _, err := os.Stat(c.JobDir(job)); err != nil {
		return done, fmt.Errorf("prune job %s: %w", job, ErrNotFound)
	}
	// Before the lock is taken: reading takes long, and checkpoints need the lock.
	whole, err := c.newestIntact(job, keep, intact)
	if err != nil {
		return done, fmt.Errorf("prune job %s: %w", job, err)
	}
	p := newPruner(c, keep, whole)
	p.spare = spare
	if err := p.run(job); err != nil {
		return done, fmt.Errorf("prune job %s: %w", job, err)
	}
	// Without the lock: nodes may be slow.
	p.errs = append(p.errs, c.removeFar(p.far))
	return p.Pruned, errors.Join(p.errs...)
}

// run goes through the snapshots with the job's lock held.
func (p *pruner) run(job string) error {
	c := p.c
	l, err := lockJob(c.JobDir(job))
	if err != nil {
		return err
	}
	defer l.Close()
	seqs, err := c.sequences(job)
	if err != nil {
		return err
	}
	// The newest first: then a crash leaves no snapshot without its base.
	for _, seq := range slices.Backward(seqs) {
		p.prune(c.dir(job, seq), seq)
	}
	p.Programs, err = c.sweepPrograms(job)
	p.errs = append(p.errs, err)
	for _, list := range [][]int{p.Removed, p.InUse, p.Needed, p.Intact} {
		slices.Sort(list)
	}
	return nil
}

// excess reports whether a place has more copies than are kept there.
func excess(all []*Snapshot, keep func(Place) int) bool {
	had := map[Place]int{}
	for _, s := range all {
		for _, c := range s.Copies() {
			if had[c.Place()]++; had[c.Place()] > keep(c.Place()) {
				return true
			}
		}
	}
	return false
}

// newestIntact returns the number of the newest intact snapshot. It returns 0 if there are no more than are
// kept anyway. No lock is held meanwhile: if another Prune has removed what was listed, it looks again.
func (c *Catalogue) newestIntact(job string, keep func(Place) int, intact func(*Snapshot) error) (int, error) {
	for {
		all, err := c.List(job)
		if !excess(all, keep) {
			return 0, nil
		}
		errs, removed := []error{err}, false
		for _, s := range slices.Backward(all) {
			err := intact(s)
			if err == nil {
				return s.Schema.Sequence, nil
			}
			errs = append(errs, err)
			_, gone := os.Lstat(s.SchemaPath())
			removed = removed || errors.Is(gone, fs.ErrNotExist)
		}
		if !removed {
			return 0, fmt.Errorf("none of its snapshots is intact, and nothing was removed: %w", Distinct(errs...))
		}
	}
}

// pruner goes through the snapshots of a job, the newest first.
type pruner struct {
	Pruned
	c       *Catalogue
	keep    func(Place) int        // how many stay in a place for their age
	had     map[Place]int          // how many there were so far
	spare   func(*Snapshot) bool   // tells those that stay whatever their age, and do not count; nil: none do
	whole   int                    // stays as it is intact
	needed  map[int]map[Place]bool // what those that stay there build on
	unknown bool                   // one was met that may build on any other
	far     []far                  // images of removed ones that lie elsewhere
	errs    []error
}

func newPruner(c *Catalogue, keep func(Place) int, whole int) *pruner {
	return &pruner{c: c, keep: keep, had: map[Place]int{}, whole: whole, needed: map[int]map[Place]bool{}}
}

func (p *pruner) prune(dir string, seq int) {
	s, err := p.c.load(dir)
	switch {
	case errors.Is(err, ErrNotCommitted), errors.Is(err, ErrNotFound):
		return
	case err != nil:
		p.errs = append(p.errs, err)
		// A damaged schema can never be restored. A schema that only this gorun or this user cannot read may be
		// restored by another. Then nothing older is removed.
		p.unknown = p.unknown || !errors.Is(err, ErrSchema)
		return
	}
	stay := p.stays(s)
	gone, err := p.drop(s, stay)
	switch {
	case err != nil:
		p.errs = append(p.errs, fmt.Errorf("prune %s: %w", dir, err))
	case !gone:
		p.InUse = append(p.InUse, seq)
	case len(stay) == 0:
		p.Removed = append(p.Removed, seq)
		return
	}
	if !gone {
		stay = s.Copies()
	}
	for _, c := range s.Copies() {
		if !slices.Contains(stay, c) {
			p.Dropped = append(p.Dropped, Dropped{seq, c.Place()})
		}
	}
	for _, base := range s.Schema.Bases() {
		if p.needed[base] == nil {
			p.needed[base] = map[Place]bool{}
		}
		for _, c := range stay {
			p.needed[base][c.Place()] = true
		}
	}
}

// stays returns the copies of a snapshot that are kept. What builds on a snapshot that has no copy in its place may be
// read with any other.
func (p *pruner) stays(s *Snapshot) (stay []Copy) {
	if p.spare != nil && p.spare(s) {
		return s.Copies()
	}
	seq, aged, needed := s.Schema.Sequence, 0, false
	all := false
	for place := range p.needed[seq] {
		_, here := s.Copy(place)
		all = all || !here
	}
	for _, c := range s.Copies() {
		at := c.Place()
		if p.had[at]++; p.had[at] <= p.keep(at) {
			aged++
			stay = append(stay, c)
		} else if seq == p.whole {
			stay = append(stay, c)
		} else if p.unknown || all || p.needed[seq][at] {
			needed = true
			stay = append(stay, c)
		}
	}
	switch {
	case aged == len(stay):
	case seq == p.whole:
		p.Intact = append(p.Intact, seq)
	case needed:
		p.Needed = append(p.Needed, seq)
	}
	return stay
}

// owns reports whether the images of a copy are this catalogue's, and not those of one that it is a copy of.
func (p *pruner) owns(s *Snapshot, c Copy) bool {
	stores, err := ownStores(p.c.JobDir(s.Schema.Job))
	if err != nil {
		p.errs = append(p.errs, err)
	}
	return err == nil && c.Set == stores.set(s.Schema.Job, c.Place(), s.Schema.Sequence)
}

// removeUnlessHeld removes a snapshot's folder, unless a process writes or uses it. It looks again
// whether it is such a folder: its writer may have committed and died before the lock was taken.
// The caller holds the job's lock.
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

// Sweep removes what crashes have left: snapshots of a job that were never committed or are half removed, and
// programs kept for them. It returns their paths. A snapshot that is being written is locked and stays. Of stores
// elsewhere it removes what belongs to no snapshot, as far as they answer. What was in the memory of a job that is over goes, too.
func (c *Catalogue) Sweep(job string) ([]string, error) {
	if !c.sweeps(job) {
		return nil, nil
	}
	over, merr := c.sweepCopies(job)
	gone, err := c.sweep(job)
	left, swept, ferr := c.sweepFar(job)
	far, lerr := c.removeSets(left)
	gone, ferr = slices.Concat(over, gone, swept), errors.Join(merr, ferr, lerr)
	for _, f := range far {
		gone = append(gone, f.place.String()+": "+f.set)
	}
	if ferr != nil {
		ferr = fmt.Errorf("sweep job %s: %w", job, ferr)
	}
	return gone, errors.Join(err, ferr, c.sweepClaims(job))
}

func (c *Catalogue) sweep(job string) ([]string, error) {
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
	return append(gone, programs...), errors.Join(append(errs, err, removeParts(c.JobDir(job)))...)
}

// jobFiles are the files that a job's folder may have. They are written under the job's lock.
var jobFiles = []string{tailsFile, streamsFile, finishedFile, storesFile, sequenceFile}

// removeParts removes what a crash has left of such a file. The caller holds the job's lock.
func removeParts(dir string) error {
	d, err := owned.OpenFolder(dir)
	if err != nil {
		return explain(err)
	}
	defer d.Close()
	for _, name := range jobFiles {
		if err := d.Remove(name + partSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explain(err)
		}
	}
	return nil
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
		ours := n == lockFile || n == askedFile || strings.HasSuffix(n, partSuffix) || strings.HasPrefix(n, "rank-") && strings.HasSuffix(n, ".img")
		return !ours || !e.Type().IsRegular()
	})
}
