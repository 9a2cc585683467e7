package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/store"
)

// stranger is another user, to whom files are given.
const stranger = 23002

// give gives a folder with all that is in it to another user.
func give(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, stranger, stranger))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// shared is a catalogue in a folder in common, with a job of this user's and a later one of another's.
func shared(t *testing.T) (c *Catalogue, own, his *Snapshot) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("giving files to another user needs root")
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	c, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	own = commit(t, c, jobA, 2)
	his = commit(t, c, jobB, 2)
	give(t, c.JobDir(jobB))
	return c, own, his
}

// TestOthersJobs: what another user has put into a folder in common is neither listed nor the latest, and nothing of it is removed.
func TestOthersJobs(t *testing.T) {
	c, own, his := shared(t)
	left := filepath.Join(c.JobDir(jobB), "2") // as a crash leaves it
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	give(t, left)
	if jobs, err := c.Jobs(); err != nil || len(jobs) != 1 || jobs[0] != jobA {
		t.Errorf("jobs %v, %v", jobs, err)
	}
	if others, err := c.Others(); err != nil || len(others) != 1 || others[jobB] != stranger {
		t.Errorf("others %v, %v", others, err)
	}
	if s, err := c.Find("latest"); err != nil || s.Dir != own.Dir {
		t.Errorf("latest: %v, %v", s, err)
	}
	if all, _, doubtful, err := c.Unfinished(func(s *Schema) bool { return s.Job == jobB }); !errors.Is(err, ErrNotFound) || len(doubtful) > 0 {
		t.Errorf("unfinished: %v, %v, %v", all, doubtful, err)
	}
	for _, spec := range []string{jobB, jobB[:8], jobB + "/1", his.Dir, his.SchemaPath(), c.JobDir(jobB), filepath.Join(his.Dir, ImageFile(0))} {
		if _, err := c.Find(spec); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v, want ErrForeign", spec, err)
		}
	}
	for what, err := range map[string]error{
		"prune":  func() error { _, err := c.Prune(jobB, 1); return err }(),
		"remove": c.Remove(jobB),
		"begin":  func() error { _, err := c.Begin(jobB); return err }(),
		"tail":   c.AddTail(jobB, "/x.gorun-0123456789abcdef-tail"),
	} {
		if !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v, want ErrForeign", what, err)
		}
	}
	trusting, _ := Open(c.Root())
	trusting.Trust()
	for _, c := range []*Catalogue{c, trusting} {
		if gone, err := c.SweepAll(); len(gone) > 0 || err != nil {
			t.Errorf("swept %v, %v", gone, err)
		}
	}
	s, err := trusting.Find(jobB)
	if err != nil || s.Dir != his.Dir || s.Own() {
		t.Fatalf("trusted: %v, %v", s, err)
	}
	hold, err := s.Hold()
	if err != nil {
		t.Fatal(err)
	}
	hold.Release()
	if err := errors.Join(s.Verify(nil), s.Finish()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(left); err != nil {
		t.Error(err)
	}
}

// TestPlantedFiles has another user's files, pipes and links within a job's folder of this user's, as if it had been open to all for a while.
func TestPlantedFiles(t *testing.T) {
	for _, name := range []string{SchemaFile, storesFile, finishedFile} {
		t.Run(name, func(t *testing.T) {
			c, own, _ := shared(t)
			path := filepath.Join(c.JobDir(jobA), name)
			if name == SchemaFile {
				path = own.SchemaPath()
			}
			look := func() error {
				_, lerr := c.Latest(jobA)
				_, serr := c.Sweep(jobA)
				_, ferr := own.Finished()
				return errors.Join(lerr, serr, ferr)
			}
			if _, err := os.Stat(path); err != nil {
				if err := os.WriteFile(path, []byte("1"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Lchown(path, stranger, stranger); err != nil {
				t.Fatal(err)
			}
			if err := look(); !errors.Is(err, ErrForeign) {
				t.Errorf("another's file: %v, want ErrForeign", err)
			}
			if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := look(); err == nil { // and does not wait
				t.Error("a pipe was taken")
			}
		})
	}
}

// TestOthersStore plants links and folders in a store in common, where they stand for sets of this user's.
func TestOthersStore(t *testing.T) {
	c, _, _ := shared(t)
	home := t.TempDir()
	precious := filepath.Join(home, "1", "data")
	if err := errors.Join(os.Mkdir(filepath.Dir(precious), 0o700), os.WriteFile(precious, []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	stores, err := noteStore(c.JobDir(jobA), Place{store.KindDir, root}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Stores(func(p Place, _ []string) (store.Store, error) { return store.OpenDir(p.Folder), nil })
	set := stores.sets(jobA, Place{store.KindDir, root})
	st := store.OpenDir(root)
	ctx := context.Background()
	for i, plant := range []func() error{
		func() error { return os.Symlink(home, filepath.Join(root, set)) }, // in a folder of his
		func() error { return os.Mkdir(filepath.Join(root, set), 0o777) },  // his own
		func() error {
			return errors.Join(os.RemoveAll(filepath.Join(root, jobA)), os.Symlink(home, filepath.Join(root, jobA)))
		},
	} {
		os.RemoveAll(filepath.Join(root, set))
		if err := os.MkdirAll(filepath.Join(root, jobA), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		give(t, filepath.Join(root, jobA))
		if _, err := c.Sweep(jobA); err == nil {
			t.Errorf("%d: swept", i)
		}
		for what, err := range map[string]error{
			"list":   func() error { _, err := st.List(ctx, set+"/1"); return err }(),
			"open":   func() error { _, err := st.Open(ctx, set+"/1", "data"); return err }(),
			"stat":   func() error { _, err := st.Stat(ctx, set+"/1", "data"); return err }(),
			"sets":   func() error { _, err := st.Sets(ctx, set); return err }(),
			"remove": st.Remove(ctx, set+"/1"),
			"begin":  st.Begin(ctx, set+"/"+fmt.Sprint(7+i)),
		} {
			if err == nil {
				t.Errorf("%d: %s took what another has planted", i, what)
			}
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// TestLeftParts: what was left of a file that was being written again does not keep the job from being removed.
func TestLeftParts(t *testing.T) {
	for _, swept := range []bool{false, true} {
		c, _ := Open(t.TempDir())
		commit(t, c, jobA, 2)
		for _, name := range jobFiles {
			if err := os.WriteFile(filepath.Join(c.JobDir(jobA), name+partSuffix), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if swept {
			if _, err := c.Sweep(jobA); err != nil {
				t.Error(err)
			}
			if left, _ := filepath.Glob(filepath.Join(c.JobDir(jobA), "*"+partSuffix)); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		}
		if err := c.Remove(jobA); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.JobDir(jobA)); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// TestRenamedResults: in a folder where others may rename what is not theirs, a folder of results may get a job's name. Nothing of it is removed.
func TestRenamedResults(t *testing.T) {
	c, _ := Open(t.TempDir())
	for _, name := range []string{"1", "2024"} {
		if err := os.MkdirAll(filepath.Join(c.JobDir(jobA), name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if gone, err := c.SweepAll(); len(gone) > 0 || err != nil {
		t.Errorf("swept %v, %v", gone, err)
	}
}
