package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/alive"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Remove removes all snapshots of a job, whole or not, the programs kept for them, and the job's
// folder. If a process writes or holds one, nothing is removed: ErrInUse. Files that are not the
// catalogue's stay, and are an error.
func (c *Catalogue) Remove(job string) error {
	if err := c.remove(job); err != nil {
		return fmt.Errorf("remove job %s: %w", job, err)
	}
	return nil
}

func (c *Catalogue) remove(job string) error {
	if err := checkJob(job); err != nil {
		return err
	}
	dir := c.JobDir(job)
	if _, err := os.Stat(dir); err != nil {
		return ErrNotFound
	}
	if err := c.runs(job); err != nil {
		return err
	}
	stores, err := ownStores(dir)
	if err != nil {
		return err
	}
	var sets []far
	for _, at := range stores.Places {
		if _, err := c.at(at.Place, stores.Nodes); err != nil {
			return err // it would be known nowhere any more
		}
		sets = append(sets, far{at.Place, stores.sets(job, at.Place), stores.Nodes})
	}
	if err := c.removeFolders(job); err != nil {
		return err
	}
	return c.removeFar(sets)
}

// removeFolders removes all that the catalogue itself has of a job.
func (c *Catalogue) removeFolders(job string) error {
	dir := c.JobDir(job)
	l, err := lockJob(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	seqs, err := c.sequences(job)
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		f, busy, err := flock(filepath.Join(c.dir(job, seq), lockFile), unix.LOCK_EX|unix.LOCK_NB)
		if busy {
			err = fmt.Errorf("%s: %w", c.dir(job, seq), ErrInUse)
		}
		if err != nil {
			return err
		}
		defer f.Close()
	}
	for _, seq := range slices.Backward(seqs) { // as in Prune: a crash leaves no chain without its base
		if err := remove(c.dir(job, seq)); err != nil {
			return err
		}
	}
	if _, err := c.sweepPrograms(job); err != nil {
		return err
	}
	left, err := claimFiles(dir, claimSuffix, heldSuffix, stoppedSuffix, claimSuffix+partSuffix) // the last by heads that died over it
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explain(err)
		}
	}
	if err := removeParts(dir); err != nil {
		return err
	}
	d, err := owned.OpenFolder(dir)
	if err != nil {
		return explain(err)
	}
	defer d.Close()
	// The lock's file last, and then nothing is left to be locked.
	for _, name := range slices.Concat([]string{programsDir}, jobFiles, []string{lockFile}) {
		if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explain(err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) { // no more than an empty folder
		return explain(err)
	}
	return syncFolder(c.root)
}

// runs says that a head of this machine has the job.
func (c *Catalogue) runs(job string) error {
	paths, err := claims(c.JobDir(job))
	for _, path := range paths {
		o, rerr := read(path)
		if rerr == nil && o != nil && o.State() == alive.Lives && o.PID != os.Getpid() {
			return fmt.Errorf("%w: it is running (pid %d)", ErrInUse, o.PID)
		}
	}
	return err
}
