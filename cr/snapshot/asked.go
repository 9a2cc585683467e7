package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// askedFile, in a snapshot's folder, says that it was requested. Others were taken from time to
// time.
const askedFile = "asked"

// Ask marks the snapshot as requested, so that PruneAsked keeps it.
func (s *Snapshot) Ask() error {
	if err := writeDurable(filepath.Join(s.Dir, askedFile), nil); err != nil {
		return fmt.Errorf("snapshot %d of job %s: %w", s.Schema.Sequence, s.Schema.Job, err)
	}
	return nil
}

// Asked reports whether it was requested. A snapshot of which that cannot be told counts as one.
func (s *Snapshot) Asked() bool {
	_, err := os.Lstat(filepath.Join(s.Dir, askedFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// PruneAsked is PruneLevels, except that requested snapshots stay, and do not count.
func (c *Catalogue) PruneAsked(job string, keep func(Place) int) (Pruned, error) {
	return c.pruneBut((*Snapshot).Asked, job, unlimited(keep), (*Snapshot).Check)
}

// RemoveUnasked removes the snapshots of a job that were not requested, and on which none that
// stays builds.
func (c *Catalogue) RemoveUnasked(job string) (Pruned, error) {
	if _, err := os.Stat(c.JobDir(job)); err != nil {
		return Pruned{}, nil
	}
	p := newPruner(c, func(Place) int { return 0 }, 0)
	p.spare = (*Snapshot).Asked
	if err := p.run(job); err != nil {
		return Pruned{}, fmt.Errorf("prune job %s: %w", job, err)
	}
	p.errs = append(p.errs, c.removeFar(p.far))
	return p.Pruned, errors.Join(p.errs...)
}
