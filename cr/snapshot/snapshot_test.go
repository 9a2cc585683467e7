package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/image"
)

const (
	jobA = "0a11ce00-0000-4000-8000-000000000001"
	jobB = "0b0b0000-0000-4000-8000-000000000002"
	jobC = "0a11ce99-0000-4000-8000-000000000003"
)

func catalogue(t testing.TB) *Catalogue {
	t.Helper()
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writeImages writes np images into a pending snapshot and makes its schema.
func writeImages(t testing.TB, p *Pending, np int) Schema {
	t.Helper()
	s := Schema{
		Incarnation: "00000000000000aa", Created: time.Date(2026, 11, 21, 0, 0, p.Seq, 0, time.UTC), NP: np,
		Backend: "self", Transport: "tcp", Point: 12,
		Program: Program{Path: "/bin/solver", Digest: strings.Repeat("ab", 32), Dir: "/tmp", Args: []string{"-n", "é\x01\""}, Env: []string{"A=b c"}},
		Lineage: []Ancestor{{"00000000000000bb", 3}},
	}
	for rank := range np {
		m := image.LocalMeta()
		m.Job, m.Incarnation, m.Rank, m.Size, m.Seq, m.Backend = p.Job, s.Incarnation, rank, np, p.Seq, "self"
		w, err := image.Create(p.ImagePath(rank), m, image.Options{BlockSize: 4096})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Section("x", "value", "string", bytes.Repeat([]byte{byte(rank), 1, 2}, 3000)); err != nil {
			t.Fatal(err)
		}
		sum, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		s.Images = append(s.Images, Image{Rank: rank, File: ImageFile(rank), Size: sum.Size, Digest: sum.Digest, Codec: "none"})
		s.Placement = append(s.Placement, Placement{rank, rank % 2, "node"})
	}
	return s
}

func begin(t testing.TB, c *Catalogue, job string) *Pending {
	t.Helper()
	p, err := c.Begin(job)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// commit takes a whole snapshot and releases it.
func commit(t testing.TB, c *Catalogue, job string, np int) *Snapshot {
	t.Helper()
	p := begin(t, c, job)
	s, h, err := p.Commit(writeImages(t, p, np))
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
	return s
}

func TestCommitFindVerify(t *testing.T) {
	c := catalogue(t)
	s := commit(t, c, jobA, 3)
	got, err := c.Latest(jobA)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, s) {
		t.Fatalf("%+v\n%+v", got.Schema, s.Schema)
	}
	var last int64
	if err := got.Verify(func(done, total int64) { last = done - total }); err != nil || last != 0 {
		t.Fatal(err, last)
	}
	if par, ok := got.Schema.Parent(); !ok || par.Sequence != 3 {
		t.Fatal(par)
	}
	for _, f := range []struct {
		path string
		mode fs.FileMode
	}{{got.SchemaPath(), 0o600}, {got.ImagePath(0), 0o600}, {got.Dir, 0o700 | fs.ModeDir}} {
		if st, err := os.Stat(f.path); err != nil || st.Mode() != f.mode {
			t.Error(f.path, st.Mode(), err)
		}
	}
}

// die drops a pending snapshot as the death of its process would.
func die(p *Pending) { p.lock.Close() }

var errCrash = errors.New("crash")

// TestCrashAtEveryStepOfCommit stops a commit after each of its steps and looks
// at what another process then finds.
func TestCrashAtEveryStepOfCommit(t *testing.T) {
	var steps []string
	c := catalogue(t)
	p := begin(t, c, jobA)
	p.step = func(s string) error { steps = append(steps, s); return nil }
	if _, h, err := p.Commit(writeImages(t, p, 2)); err != nil {
		t.Fatal(err)
	} else {
		h.Release()
	}
	renamed := slices.Index(steps, "schema renamed")
	if renamed < 0 || len(steps) < 6 {
		t.Fatal(steps)
	}
	for i, stop := range steps {
		t.Run(stop, func(t *testing.T) {
			c := catalogue(t)
			old := commit(t, c, jobA, 2)
			p := begin(t, c, jobA)
			p.step = func(s string) error {
				if s == stop {
					return errCrash
				}
				return nil
			}
			if _, _, err := p.Commit(writeImages(t, p, 2)); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			die(p)
			latest, err := c.Latest(jobA)
			if err != nil {
				t.Fatal(err)
			}
			if err := latest.Verify(nil); err != nil {
				t.Fatal(err)
			}
			swept, err := c.Sweep(jobA)
			if err != nil {
				t.Fatal(err)
			}
			if i < renamed && (latest.Dir != old.Dir || len(swept) != 1 || swept[0] != p.Dir) {
				t.Errorf("before the rename: latest %s, swept %v", latest.Dir, swept)
			}
			if i >= renamed && (latest.Dir != p.Dir || len(swept) != 0) {
				t.Errorf("after the rename: latest %s, swept %v", latest.Dir, swept)
			}
			if p2 := begin(t, c, jobA); p2.Seq != 3 {
				t.Errorf("number %d given out", p2.Seq)
			} else if err := p2.Discard(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCommitChecksImages(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"missing": os.Remove,
		"short":   func(p string) error { return os.Truncate(p, 100) },
		"folder":  func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
	} {
		c := catalogue(t)
		p := begin(t, c, jobA)
		s := writeImages(t, p, 2)
		if err := damage(p.ImagePath(1)); err != nil {
			t.Fatal(err)
		}
		_, _, err := p.Commit(s)
		var ie *ImageError
		if !errors.As(err, &ie) || ie.Rank != 1 || !strings.Contains(err.Error(), p.ImagePath(1)) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.Latest(jobA); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Discard(); err != nil {
			t.Error(err)
		}
		if _, _, err := p.Commit(s); !errors.Is(err, ErrEnded) {
			t.Error(err)
		}
		if _, err := os.Stat(p.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

func TestConcurrentBeginsGetDifferentNumbers(t *testing.T) {
	c := catalogue(t)
	var mu sync.Mutex
	seen := map[int]bool{}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 8 {
				mine, _ := Open(c.Root())
				p, err := mine.Begin(jobA)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[p.Seq] {
					t.Errorf("%d given out twice", p.Seq)
				}
				seen[p.Seq] = true
				mu.Unlock()
				if i%2 == 0 {
					if err := p.Discard(); err != nil {
						t.Error(err)
					}
				} else {
					die(p)
				}
				if _, err := mine.Sweep(jobA); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if len(seen) != 64 || !seen[64] {
		t.Error(len(seen))
	}
}

func TestNumbersAreNotUsedAgain(t *testing.T) {
	c := catalogue(t)
	for range 3 {
		commit(t, c, jobA, 1)
	}
	if err := begin(t, c, jobA).Discard(); err != nil { // 4
		t.Fatal(err)
	}
	done, err := c.Prune(jobA, 1)
	if err != nil || !reflect.DeepEqual(done, Pruned{Removed: []int{1, 2}}) {
		t.Fatal(done, err)
	}
	// The last one is removed by hand: the file knows still.
	if err := os.RemoveAll(filepath.Join(c.JobDir(jobA), "3")); err != nil {
		t.Fatal(err)
	}
	if s := commit(t, c, jobA, 1); s.Schema.Sequence != 5 {
		t.Error(s.Schema.Sequence)
	}
	// Without the file the folders tell.
	if err := os.Remove(filepath.Join(c.JobDir(jobA), sequenceFile)); err != nil {
		t.Fatal(err)
	}
	if s := commit(t, c, jobA, 1); s.Schema.Sequence != 6 {
		t.Error(s.Schema.Sequence)
	}
}

func TestSweep(t *testing.T) {
	c := catalogue(t)
	whole := commit(t, c, jobA, 1)
	writing := begin(t, c, jobA)
	writeImages(t, writing, 1)
	dead := begin(t, c, jobA)
	writeImages(t, dead, 2)
	os.WriteFile(filepath.Join(dead.Dir, "rank-00002.img.0123.part"), []byte("half"), 0o600)
	die(dead)
	noLock := filepath.Join(c.JobDir(jobA), "17") // crashed between making and locking
	notOurs := filepath.Join(c.JobDir(jobA), "18")
	for _, d := range []string{noLock, notOurs} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(notOurs, "thesis.tex"), nil, 0o600)

	gone, err := c.SweepAll()
	if err != nil || !reflect.DeepEqual(gone, []string{dead.Dir, noLock}) {
		t.Fatal(gone, err)
	}
	for _, d := range []string{whole.Dir, writing.Dir, notOurs} {
		if _, err := os.Stat(d); err != nil {
			t.Error(err)
		}
	}
	if _, h, err := writing.Commit(writeImages(t, writing, 1)); err != nil {
		t.Error(err)
	} else {
		h.Release()
	}
}

func TestFind(t *testing.T) {
	c := catalogue(t)
	a1, a2 := commit(t, c, jobA, 2), commit(t, c, jobA, 2)
	b1 := commit(t, c, jobB, 1)
	unfinished := begin(t, c, jobA)
	defer unfinished.Discard()
	t.Chdir(t.TempDir())
	loose := filepath.Join(t.TempDir(), "note.txt")
	os.WriteFile(loose, nil, 0o600)
	for _, x := range []struct {
		spec string
		want *Snapshot
		err  error
	}{
		{jobA, a2, nil}, {"0a11", a2, nil}, {"0a11/1", a1, nil}, {"0a11/latest", a2, nil}, {jobB[:3], b1, nil},
		{"latest", a2, nil}, {a1.Dir, a1, nil}, {a1.SchemaPath(), a1, nil}, {a1.ImagePath(1), a1, nil},
		{c.JobDir(jobA), a2, nil},
		{"0", nil, ErrAmbiguous}, {"", nil, ErrNotFound}, {"ffff", nil, ErrNotFound}, {"0a11/3", nil, ErrNotCommitted},
		{"0a11/9", nil, ErrNotFound}, {"0a11/x", nil, ErrNotFound}, {"0a11/01", nil, ErrNotFound}, {"0a11/-1", nil, ErrNotFound},
		{unfinished.Dir, nil, ErrNotCommitted}, {"/no/such/thing", nil, ErrNotFound}, {"./nothing", nil, ErrNotFound},
		{loose, nil, ErrNotFound}, {filepath.Dir(loose) + "/", nil, ErrNotFound},
	} {
		got, err := c.Find(x.spec)
		if !errors.Is(err, x.err) || (x.err == nil && err != nil) {
			t.Errorf("%q: %v, want %v", x.spec, err, x.err)
			continue
		}
		if x.want != nil && (got.Dir != x.want.Dir || got.Schema.Sequence != x.want.Schema.Sequence) {
			t.Errorf("%q: %s, want %s", x.spec, got.Dir, x.want.Dir)
		}
	}
	if _, err := c.Find("0"); !strings.Contains(err.Error(), jobA) || !strings.Contains(err.Error(), jobB) {
		t.Error(err)
	}
	// A folder that happens to be called like an id is not in the way.
	if err := os.Mkdir("0a11", 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Find("0a11"); err != nil || s.Dir != a2.Dir {
		t.Error(s, err)
	}
	// Another job makes the prefix ambiguous.
	commit(t, c, jobC, 1)
	if _, err := c.Find("0a11"); !errors.Is(err, ErrAmbiguous) {
		t.Error(err)
	}
}

func TestLatestOfOneRun(t *testing.T) {
	c := catalogue(t)
	commit(t, c, jobA, 1)
	p := begin(t, c, jobA)
	s := writeImages(t, p, 1)
	s.Incarnation = "other"
	if _, h, err := p.Commit(s); err != nil {
		t.Fatal(err)
	} else {
		h.Release()
	}
	for _, x := range []struct {
		run    string
		parent int
		want   int
	}{{"00000000000000aa", 0, 1}, {"other", 1, 2}, {"new", 1, 1}} {
		got, err := c.LatestOf(jobA, x.run, x.parent)
		if err != nil || got.Schema.Sequence != x.want {
			t.Errorf("%+v: %v %v", x, got, err)
		}
	}
	if _, err := c.LatestOf(jobA, "new", 0); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestMovedFolder(t *testing.T) {
	c := catalogue(t)
	s := commit(t, c, jobA, 2)
	to := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Rename(s.Dir, to); err != nil {
		t.Fatal(err)
	}
	got, err := c.Find(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(got.Check(), got.Verify(nil)); err != nil {
		t.Fatal(err)
	}
	h, err := got.Hold()
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
}

func TestVerifyNamesWhatIsWrong(t *testing.T) {
	flip := func(at int64) func(c *Catalogue, s *Snapshot, path string) error {
		return func(_ *Catalogue, _ *Snapshot, path string) error {
			p, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if at < 0 {
				at += int64(len(p))
			}
			p[at] ^= 1
			return os.WriteFile(path, p, 0o600)
		}
	}
	for name, x := range map[string]struct {
		damage  func(c *Catalogue, s *Snapshot, path string) error
		want    error
		text    string
		shallow bool // Check sees it too
	}{
		"missing":       {func(_ *Catalogue, _ *Snapshot, p string) error { return os.Remove(p) }, fs.ErrNotExist, "bring the file back", true},
		"truncated":     {func(_ *Catalogue, _ *Snapshot, p string) error { return os.Truncate(p, 5000) }, ErrImage, "5000 bytes", true},
		"flipped data":  {flip(5000), image.ErrCorrupt, `section "x"`, false},
		"flipped meta":  {flip(60), image.ErrCorrupt, "digest", true},
		"flipped table": {flip(-100), image.ErrCorrupt, "digest", true},
		"other rank": {func(_ *Catalogue, s *Snapshot, p string) error {
			return copyFile(s.ImagePath(0), p)
		}, ErrImage, "digest", true},
		"other rank, schema too": {func(_ *Catalogue, s *Snapshot, p string) error {
			s.Schema.Images[1].Digest = s.Schema.Images[0].Digest
			return copyFile(s.ImagePath(0), p)
		}, ErrImage, "rank 0", true},
		"other snapshot": {func(c *Catalogue, s *Snapshot, p string) error {
			o := commit(t, c, s.Schema.Job, 2)
			s.Schema.Images[1].Digest = o.Schema.Images[1].Digest
			return copyFile(o.ImagePath(1), p)
		}, ErrImage, "sequence 2", true},
		"other job": {func(c *Catalogue, s *Snapshot, p string) error {
			o := commit(t, c, jobB, 2)
			s.Schema.Images[1].Digest = o.Schema.Images[1].Digest
			return copyFile(o.ImagePath(1), p)
		}, ErrImage, "job " + jobB, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := catalogue(t)
			s := commit(t, c, jobA, 2)
			path := s.ImagePath(1)
			if err := x.damage(c, s, path); err != nil {
				t.Fatal(err)
			}
			err := s.Verify(nil)
			var ie *ImageError
			if !errors.Is(err, x.want) || !errors.As(err, &ie) || ie.Rank != 1 {
				t.Fatal(err)
			}
			for _, text := range []string{"rank 1", path, x.text, "(", ")"} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
			if strings.Count(err.Error(), path) != 1 {
				t.Errorf("%q repeats itself", err)
			}
			if (s.Check() != nil) != x.shallow {
				t.Errorf("check: %v", s.Check())
			}
		})
	}
}

func copyFile(from, to string) error {
	p, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, p, 0o600)
}

func TestManyBadImagesAreSummedUp(t *testing.T) {
	c := catalogue(t)
	s := commit(t, c, jobA, 13)
	for r := range 13 {
		os.Remove(s.ImagePath(r))
	}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "and 3 more") {
		t.Fatal(err)
	}
}

func TestDamagedSchemaIsNotPassedOver(t *testing.T) {
	c := catalogue(t)
	commit(t, c, jobA, 1)
	s := commit(t, c, jobA, 1)
	os.WriteFile(s.SchemaPath(), []byte("format = 1\n"), 0o600)
	if _, err := c.Latest(jobA); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), s.SchemaPath()) {
		t.Error(err)
	}
	all, err := c.List(jobA)
	if len(all) != 1 || !errors.Is(err, ErrSchema) {
		t.Error(all, err)
	}
	done, err := c.Prune(jobA, 1)
	if len(done.Removed) != 0 || !errors.Is(err, ErrSchema) {
		t.Error(done, err)
	}
}

func TestBeginRefusesBadJobs(t *testing.T) {
	c := catalogue(t)
	for _, job := range []string{"", "..", "x/y", strings.ToUpper(jobA), "{" + jobA + "}"} {
		if _, err := c.Begin(job); err == nil {
			t.Errorf("%q accepted", job)
		}
	}
}

func TestFileDigest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	os.WriteFile(path, []byte("abc"), 0o600)
	d, err := FileDigest(path)
	if err != nil || d != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Fatal(d, err)
	}
	if _, err := FileDigest(path + "x"); err == nil {
		t.Fatal(fmt.Errorf("no error"))
	}
}
