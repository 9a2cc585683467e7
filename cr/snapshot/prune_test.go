package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// hurt changes a byte of the first image that only reading all of it finds.
func hurt(t *testing.T, s *Snapshot) {
	t.Helper()
	path := s.ImagePath(0)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		good[i] ^= 1
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if s.Check() == nil && s.Verify(nil) != nil {
			return
		}
		good[i] ^= 1
	}
	t.Fatal("no byte of the image is what only reading finds")
}

// The newest snapshot that is intact stays, whatever is newer.
func TestPruneKeepsTheNewestIntact(t *testing.T) {
	c := catalogue(t)
	var all []*Snapshot
	for range 4 {
		all = append(all, commit(t, c, jobA, 1))
	}
	hurt(t, all[3])
	hurt(t, all[2])
	done, err := c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{1, 3}, Intact: []int{2}}) {
		t.Fatalf("%+v, %v", done, err)
	}
	if err := all[1].Verify(nil); err != nil {
		t.Error(err)
	}
	// With a newer one that is whole it goes.
	commit(t, c, jobA, 1)
	done, err = c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{2, 4}}) {
		t.Errorf("%+v, %v", done, err)
	}
}

// The snapshots that the intact one builds on stay with it.
func TestPruneKeepsTheNewestIntactChain(t *testing.T) {
	c := catalogue(t)
	_, h := build(t, c, 0, 0, 0)
	h.Release()
	_, h = build(t, c, 1, 1, 1)
	h.Release()
	s, h := build(t, c, 0, 0, 0)
	h.Release()
	hurt(t, s)
	done, err := c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Intact: []int{2}, Needed: []int{1}}) {
		t.Errorf("%+v, %v", done, err)
	}
}

// Where nothing is intact nothing is removed.
func TestPruneOfDamagedOnly(t *testing.T) {
	c := catalogue(t)
	for range 3 {
		hurt(t, commit(t, c, jobA, 1))
	}
	done, err := c.Prune(jobA, 1)
	if err == nil || !strings.Contains(err.Error(), "nothing was removed") || len(done.Removed) > 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// Two at once: what one has listed the other removes, as it knows of a newer snapshot.
func TestPruneWhilePruned(t *testing.T) {
	c := catalogue(t)
	for range 2 {
		commit(t, c, jobA, 1)
	}
	looked := 0
	done, err := c.prune(jobA, keepN(1), func(s *Snapshot) error {
		if looked++; looked == 1 {
			for range 2 {
				commit(t, c, jobA, 1)
			}
			for seq := 1; seq <= 3; seq++ {
				if err := remove(c.dir(jobA, seq)); err != nil {
					t.Fatal(err)
				}
			}
			commit(t, c, jobA, 1)
		}
		return s.Check()
	})
	if err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{4}}) {
		t.Errorf("%+v, %v", done, err)
	}
}

// Of a job's head, what it has just written counts as intact if its table is.
func TestPruneChecked(t *testing.T) {
	c := catalogue(t)
	first := commit(t, c, jobA, 1)
	s := commit(t, c, jobA, 1)
	if err := os.Truncate(s.ImagePath(0), 10); err != nil {
		t.Fatal(err)
	}
	done, err := c.PruneChecked(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Intact: []int{first.Schema.Sequence}}) {
		t.Fatalf("%+v, %v", done, err)
	}
	hurt(t, commit(t, c, jobA, 1))
	done, err = c.PruneChecked(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{1, 2}}) {
		t.Errorf("%+v, %v", done, err)
	}
}

// A snapshot that was put in the place of another is not taken for it.
func TestMisplaced(t *testing.T) {
	c := catalogue(t)
	ours, theirs := commit(t, c, jobA, 1), commit(t, c, jobB, 1)
	commit(t, c, jobB, 1)
	if err := errors.Join(os.RemoveAll(ours.Dir), os.CopyFS(ours.Dir, os.DirFS(theirs.Dir))); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "1")
	if err := os.CopyFS(other, os.DirFS(ours.Dir)); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{jobA, jobA + "/1", ours.Dir, ours.SchemaPath(), ours.ImagePath(0)} {
		if _, err := c.Find(spec); !errors.Is(err, ErrMisplaced) || !strings.Contains(err.Error(), jobB) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	if _, err := c.List(jobA); !errors.Is(err, ErrMisplaced) {
		t.Error(err)
	}
	// A restart passes it over for an older one, and says why, but not if it was named by its number.
	if _, _, err := c.Candidates(jobA); !errors.Is(err, ErrMisplaced) {
		t.Error("there is no older one:", err)
	}
	commit(t, c, jobA, 1)
	if err := os.Rename(c.dir(jobA, 2), c.dir(jobA, 3)); err != nil {
		t.Fatal(err)
	}
	older := commit(t, c, jobA, 1)
	if older.Schema.Sequence != 4 {
		t.Fatal(older.Schema.Sequence)
	}
	if err := os.Rename(c.dir(jobA, 3), c.dir(jobA, 5)); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{jobA, jobA + "/latest", c.JobDir(jobA)} {
		all, passed, err := c.Candidates(spec)
		if err != nil || len(all) != 1 || all[0].Dir != older.Dir || len(passed) != 1 || !errors.Is(passed[0], ErrMisplaced) {
			t.Errorf("%s: %v, passed over %v, %v", spec, all, passed, err)
		}
	}
	if _, _, err := c.Candidates(jobA + "/5"); !errors.Is(err, ErrMisplaced) {
		t.Error(err)
	}
	// In no job's folder it may lie anywhere.
	if s, err := c.Find(other); err != nil || s.Schema.Job != jobB {
		t.Error(s, err)
	}
	// Another number of the same job is another snapshot, too.
	if err := os.Rename(filepath.Join(c.JobDir(jobB), "2"), filepath.Join(c.JobDir(jobB), "7")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Find(jobB); !errors.Is(err, ErrMisplaced) || !strings.Contains(err.Error(), "snapshot 2") {
		t.Error(err)
	}
}
