package snapshot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// program makes a file to be kept.
func program(t testing.TB, text string) (path, digest string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "solver")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	digest, err := FileDigest(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, digest
}

// kept takes a snapshot that keeps the program.
func kept(t testing.TB, c *Catalogue, path, digest string) (*Snapshot, *Hold) {
	t.Helper()
	p := begin(t, c, jobA)
	if err := p.KeepProgram(path, digest); err != nil {
		t.Fatal(err)
	}
	s := writeImages(t, p, 1)
	s.Program.Digest = digest
	snap, h, err := p.Commit(s)
	if err != nil {
		t.Fatal(err)
	}
	return snap, h
}

// programs lists the folder of kept programs.
func programs(t testing.TB, c *Catalogue) []string {
	t.Helper()
	es, err := os.ReadDir(filepath.Join(c.JobDir(jobA), programsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range es {
		names = append(names, e.Name())
	}
	return names
}

func TestKeepProgram(t *testing.T) {
	c := catalogue(t)
	path, digest := program(t, "#!/bin/sh\nexit 7\n")
	s, h := kept(t, c, path, digest)
	defer h.Release()
	st, err := os.Stat(s.ProgramPath())
	if err != nil || st.Mode() != 0o500 {
		t.Fatal(st, err)
	}
	if got, err := FileDigest(s.ProgramPath()); got != digest {
		t.Fatal(got, err)
	}
	again, err := Load(s.Dir)
	if err != nil || !again.Schema.Program.Kept || again.ProgramPath() != s.ProgramPath() {
		t.Fatal(again, err)
	}
	if err := again.Verify(nil); err != nil {
		t.Fatal(err)
	}
	// It is stored once.
	_, h2 := kept(t, c, path, digest)
	h2.Release()
	same, err := os.Stat(s.ProgramPath())
	if err != nil || !os.SameFile(st, same) || len(programs(t, c)) != 1 {
		t.Error(programs(t, c), err)
	}
	// Another one beside it, although the job's path is the same.
	if err := os.WriteFile(path, []byte("rebuilt"), 0o755); err != nil {
		t.Fatal(err)
	}
	rebuilt, err := FileDigest(path)
	if err != nil {
		t.Fatal(err)
	}
	_, h3 := kept(t, c, path, rebuilt)
	h3.Release()
	if len(programs(t, c)) != 2 {
		t.Error(programs(t, c))
	}
	if plain := commit(t, c, jobA, 1); plain.ProgramPath() != "" {
		t.Error(plain.ProgramPath())
	}
}

func TestKeepProgramRefusals(t *testing.T) {
	c := catalogue(t)
	path, digest := program(t, "a")
	other := strings.Repeat("4", 64)
	for name, x := range map[string]struct {
		job, path, digest string
		want              error
		text              string
	}{
		"changed":   {jobA, path, other, ErrProgram, "has changed"},
		"gone":      {jobA, path + "x", digest, fs.ErrNotExist, path + "x"},
		"folder":    {jobA, filepath.Dir(path), digest, unix.EISDIR, filepath.Dir(path)},
		"no digest": {jobA, path, "../../x", nil, "SHA-256"},
		"no job":    {"..", path, digest, nil, "uuid"},
	} {
		h, err := c.KeepProgram(x.job, x.path, x.digest)
		if err == nil || h != nil || x.want != nil && !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := programs(t, c); left != nil {
		t.Error(left)
	}
	// A schema of another program than the one that was kept.
	p := begin(t, c, jobA)
	if err := p.KeepProgram(path, digest); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Commit(writeImages(t, p, 1)); !errors.Is(err, ErrProgram) {
		t.Error(err)
	}
	if err := p.Discard(); err != nil {
		t.Error(err)
	}
	if err := p.KeepProgram(path, digest); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}

func TestProgramIsVerified(t *testing.T) {
	path, digest := program(t, "program")
	for name, x := range map[string]struct {
		damage func(path string) error
		want   error
	}{
		"gone":    {os.Remove, fs.ErrNotExist},
		"changed": {func(p string) error { os.Chmod(p, 0o700); return os.WriteFile(p, []byte("Program"), 0o700) }, ErrProgram},
		"link":    {func(p string) error { return errors.Join(os.Remove(p), os.Symlink(path, p)) }, ErrProgram},
	} {
		c := catalogue(t)
		s, h := kept(t, c, path, digest)
		h.Release()
		if err := x.damage(s.ProgramPath()); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{s.Check(), s.Verify(nil)} {
			if !errors.Is(err, x.want) || strings.Count(err.Error(), s.ProgramPath()) != 1 || !strings.Contains(err.Error(), "/bin/solver") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if name == "link" {
			continue
		}
		// The next snapshot of the job mends it.
		_, h = kept(t, c, path, digest)
		h.Release()
		if err := s.Verify(nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgramsNobodyNamesAreRemoved(t *testing.T) {
	c := catalogue(t)
	path, digest := program(t, "one")
	first, h1 := kept(t, c, path, digest)
	path2, digest2 := program(t, "two")
	_, h2 := kept(t, c, path2, digest2)
	h2.Release()

	done, err := c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{InUse: []int{1}}) {
		t.Fatalf("%+v %v", done, err)
	}
	h1.Release()
	done, err = c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{1}, Programs: []string{first.ProgramPath()}}) {
		t.Fatalf("%+v %v", done, err)
	}
	// One that is kept before the first snapshot lives as long as its Hold.
	h, err := c.KeepProgram(jobA, path, digest)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if gone, err := c.Sweep(jobA); len(gone) != 0 || err != nil {
			t.Fatal(gone, err)
		}
	}
	h.Release()
	if gone, err := c.Sweep(jobA); err != nil || !reflect.DeepEqual(gone, []string{first.ProgramPath()}) {
		t.Fatal(gone, err)
	}
	if got := programs(t, c); !reflect.DeepEqual(got, []string{digest2}) {
		t.Fatal(got)
	}
}

// TestProgramOfARestart: the snapshot that a restart runs from may be removed by
// hand, but its program not by a sweep.
func TestProgramOfARestart(t *testing.T) {
	c := catalogue(t)
	path, digest := program(t, "one")
	s, h := kept(t, c, path, digest)
	h.Release()
	h, err := s.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.SchemaPath()); err != nil {
		t.Fatal(err)
	}
	if gone, err := c.Sweep(jobA); len(gone) != 0 || err != nil {
		t.Error(gone, err)
	}
	h.Release()
	if gone, err := c.Sweep(jobA); len(gone) != 2 || err != nil {
		t.Error(gone, err)
	}
}

func TestSweepSparesUnknownPrograms(t *testing.T) {
	c := catalogue(t)
	path, digest := program(t, "one")
	s, h := kept(t, c, path, digest)
	h.Release()
	mine := filepath.Join(filepath.Dir(s.ProgramPath()), "README")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// A schema that cannot be read may name any program.
	if err := os.WriteFile(s.SchemaPath(), []byte("format = 99"), 0o600); err != nil {
		t.Fatal(err)
	}
	if gone, err := c.Sweep(jobA); len(gone) != 0 || err != nil {
		t.Error(gone, err)
	}
	if got := programs(t, c); len(got) != 2 {
		t.Error(got)
	}
}

// TestCrashAtEveryStepOfKeeping stops the keeping of a program, and the commit
// after it, at each step, and looks at what the next process finds.
func TestCrashAtEveryStepOfKeeping(t *testing.T) {
	path, digest := program(t, "program")
	var steps []string
	run := func(c *Catalogue, stop string) error {
		p := begin(t, c, jobA)
		defer die(p)
		p.step = func(s string) error {
			steps = append(steps, s)
			if s == stop {
				return errCrash
			}
			return nil
		}
		err := p.KeepProgram(path, digest)
		if err == nil {
			s := writeImages(t, p, 1)
			s.Program.Digest = digest
			var h *Hold
			_, h, err = p.Commit(s)
			h.Release()
		}
		p.program.Release() // as the end of the process would
		return err
	}
	if err := run(catalogue(t), ""); err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(steps)
	if len(all) < 11 || all[0] != "program copied" {
		t.Fatal(all)
	}
	for _, stop := range all {
		t.Run(stop, func(t *testing.T) {
			c := catalogue(t)
			if err := run(c, stop); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			if _, err := c.Sweep(jobA); err != nil {
				t.Fatal(err)
			}
			s, err := c.Latest(jobA)
			switch {
			case err == nil:
				if err := s.Verify(nil); err != nil {
					t.Error(err)
				}
			case !errors.Is(err, ErrNotFound):
				t.Error(err)
			case len(programs(t, c)) != 0:
				t.Error(programs(t, c))
			}
			if err := run(c, ""); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHalfCopyOfACrash leaves what a killed process would: no clean-up ran.
func TestHalfCopyOfACrash(t *testing.T) {
	c := catalogue(t)
	path, digest := program(t, "program")
	k := &keeper{c: c, jobDir: c.JobDir(jobA), digest: digest}
	if err := os.MkdirAll(filepath.Join(k.jobDir, programsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	part, err := k.copy(path)
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := c.Sweep(jobA); len(gone) != 0 || err != nil {
		t.Fatal("swept while it was being written:", gone, err)
	}
	part.Close()
	if gone, err := c.Sweep(jobA); err != nil || !reflect.DeepEqual(gone, []string{part.Name()}) {
		t.Fatal(gone, err)
	}
}

// TestRemovedByItsWriter: a copy that its writer gives up goes between the look of
// a sweep and its hand.
func TestRemovedByItsWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy"+partSuffix)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	looks := 0
	stays, err := removeUnless(path, func() bool {
		if looks++; looks == 2 { // opened and locked
			os.Remove(path)
		}
		return false
	})
	if !stays || err != nil || looks != 2 {
		t.Error(stays, err, looks)
	}
}

func TestConcurrentKeeping(t *testing.T) {
	c := catalogue(t)
	path, digest := program(t, strings.Repeat("program", 10000))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 8 {
				h, err := c.KeepProgram(jobA, path, digest)
				if err != nil {
					t.Error(err)
					return
				}
				if err := checkProgram(programPath(c.JobDir(jobA), digest), digest); err != nil {
					t.Error(err)
				}
				h.Release()
				if _, err := c.Sweep(jobA); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if left := programs(t, c); len(left) > 1 || len(left) == 1 && left[0] != digest {
		t.Error(left)
	}
}

func TestDiskFullForTheProgram(t *testing.T) {
	dir := mount(t, 0, "size=256k")
	c, _ := Open(dir)
	path, digest := program(t, strings.Repeat("x", 300<<10))
	_, err := c.KeepProgram(jobA, path, digest)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "free space") {
		t.Fatal(err)
	}
	if left := programs(t, c); len(left) != 0 {
		t.Error(left)
	}
}
