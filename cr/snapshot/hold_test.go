package snapshot

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPruneSparesWhatIsHeld(t *testing.T) {
	c := catalogue(t)
	first := commit(t, c, jobA, 1)
	for range 3 {
		commit(t, c, jobA, 1)
	}
	h1, err := first.Hold()
	if err != nil {
		t.Fatal(err)
	}
	h2, err := first.Hold() // two restarts of one snapshot
	if err != nil {
		t.Fatal(err)
	}
	h1.Release()
	done, err := c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{2, 3}, InUse: []int{1}}) {
		t.Fatal(done, err)
	}
	if err := first.Verify(nil); err != nil {
		t.Fatal(err)
	}
	h2.Release()
	done, err = c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{1}}) {
		t.Fatal(done, err)
	}
	if _, err := first.Hold(); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := c.Prune(jobA, 0); err == nil {
		t.Fatal("pruned the last one")
	}
}

// A restart passes over the newest snapshot while its commit, or its removal, stands still, and says why. If there is
// no older one it is told by Hold.
func TestCandidatesPassOverWhatStandsStill(t *testing.T) {
	c := catalogue(t)
	soon := func(spec string) ([]*Snapshot, []error, error) { return c.candidates(spec, time.Millisecond) }
	older := commit(t, c, jobA, 1)
	p := begin(t, c, jobA)
	p.step = func(done string) error {
		if done != "schema renamed" {
			return nil
		}
		for _, spec := range []string{"latest", jobA} {
			all, passed, err := soon(spec)
			if err != nil || len(all) != 1 || all[0].Dir != older.Dir || len(passed) != 1 || !errors.Is(passed[0], ErrNotFound) {
				t.Errorf("%s: %v, passed over %v, %v", spec, all, passed, err)
			}
		}
		if all, passed, err := soon(jobA + "/2"); err != nil || len(all) != 1 || len(passed) > 0 {
			t.Errorf("by its number: %v, passed over %v, %v", all, passed, err)
		}
		return nil
	}
	newer, h, err := p.Commit(writeImages(t, p, 1))
	if err != nil {
		t.Fatal(err)
	}
	all, passed, err := soon(jobA) // one that is held can be held by others
	if err != nil || len(all) != 2 || all[0].Dir != newer.Dir || len(passed) > 0 {
		t.Errorf("committed: %v, passed over %v, %v", all, passed, err)
	}
	h.Release()
	f, _, err := flock(filepath.Join(newer.Dir, lockFile), unix.LOCK_EX) // as for a removal
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := flock(filepath.Join(older.Dir, lockFile), unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	all, passed, err = soon(jobA)
	if err != nil || len(all) != 1 || all[0].Dir != older.Dir || len(passed) != 1 {
		t.Errorf("all stand still: %v, passed over %v, %v", all, passed, err)
	}
	if _, err := all[0].Hold(); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	f.Close()
	g.Close()
}

// Nobody waits for ever for the lock of a job's folder.
func TestJobsLockStandsStill(t *testing.T) {
	c := catalogue(t)
	commit(t, c, jobA, 1)
	l, err := lockJob(c.JobDir(jobA))
	if err != nil {
		t.Fatal(err)
	}
	if f, err := lockWithin(c.JobDir(jobA), time.Millisecond); !errors.Is(err, errHeld) || f != nil {
		t.Error(f, err)
	}
	l.Close()
	l, err = lockWithin(c.JobDir(jobA), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestCommittedIsHeldUntilReleased(t *testing.T) {
	c := catalogue(t)
	p := begin(t, c, jobA)
	_, h, err := p.Commit(writeImages(t, p, 1))
	if err != nil {
		t.Fatal(err)
	}
	commit(t, c, jobA, 1)
	if done, err := c.Prune(jobA, 1); err != nil || len(done.InUse) != 1 {
		t.Fatal(done, err)
	}
	h.Release()
	h.Release()
	if done, err := c.Prune(jobA, 1); err != nil || len(done.Removed) != 1 {
		t.Fatal(done, err)
	}
}
