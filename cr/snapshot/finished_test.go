package snapshot

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// "latest" passes over jobs that have ended well, or says so.
func TestLatestIsNotFinished(t *testing.T) {
	c := catalogue(t)
	a := commit(t, c, jobA, 1)
	b := commit(t, c, jobB, 1)
	latest := func(want *Snapshot) {
		t.Helper()
		s, err := c.Find("latest")
		if want == nil {
			if !errors.Is(err, ErrFinished) || !strings.Contains(err.Error(), "name it") {
				t.Error(s, err)
			}
		} else if err != nil || s.Dir != want.Dir {
			t.Errorf("%v, %v, want %s", s, err, want.Dir)
		}
	}
	latest(b)
	finish := func(s *Snapshot) {
		t.Helper()
		if err := s.Finish(); err != nil {
			t.Fatal(err)
		}
		if ended, err := s.Finished(); err != nil || !ended {
			t.Error(ended, err)
		}
	}
	finish(b)
	latest(a)
	finish(a)
	latest(nil)
	// By its name it is found.
	if s, err := c.Find(jobB); err != nil || s.Dir != b.Dir {
		t.Error(s, err)
	}
	// A later run of the job that has taken a snapshot has not ended.
	a2 := commit(t, c, jobA, 1)
	latest(a2)
	finish(a2)
	finish(a) // as a restart of the older one
	if ended, err := a2.Finished(); err != nil || !ended {
		t.Error(ended, err)
	}
	latest(nil)
	if err := os.WriteFile(filepath.Join(c.JobDir(jobA), finishedFile), []byte("soon"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Find("latest"); !errors.Is(err, ErrSchema) {
		t.Error(err)
	}
}

// A snapshot that was copied elsewhere says nothing of its job.
func TestFinishElsewhere(t *testing.T) {
	c := catalogue(t)
	commit(t, c, jobA, 1)
	copied := filepath.Join(t.TempDir(), "copied")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(c.JobDir(jobA), "1"))); err != nil {
		t.Fatal(err)
	}
	s, err := Load(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(); err != nil {
		t.Error(err)
	}
	if ended, err := s.Finished(); ended || err != nil {
		t.Error(ended, err)
	}
	if es, err := os.ReadDir(filepath.Dir(copied)); err != nil || len(es) != 1 {
		t.Error(es, err)
	}
}

func TestRemove(t *testing.T) {
	c := catalogue(t)
	s := commit(t, c, jobA, 2)
	commit(t, c, jobB, 1)
	path, digest := program(t, "a program")
	_, held := kept(t, c, path, digest)
	writing := begin(t, c, jobA)
	for _, done := range []func(){func() { writing.Discard() }, held.Release} {
		if err := c.Remove(jobA); !errors.Is(err, ErrInUse) {
			t.Fatal(err)
		}
		if err := s.Verify(nil); err != nil {
			t.Fatal(err)
		}
		done()
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	die(begin(t, c, jobA))
	foreign := filepath.Join(c.JobDir(jobA), "notes")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(jobA); err == nil {
		t.Error("a folder with something foreign in it was removed")
	}
	if err := os.Remove(foreign); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(jobA); err != nil {
		t.Fatal(err)
	}
	if jobs, err := c.Jobs(); err != nil || len(jobs) != 1 || jobs[0] != jobB {
		t.Error(jobs, err)
	}
	if err := c.Remove(jobA); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := c.Remove("../" + jobB); err == nil {
		t.Error("removed something beside the catalogue")
	}
}
