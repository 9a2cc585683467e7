package cr_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// imagesAt runs f on n ranks to their k-th Points, where it is imaged and ended: that Point returns an error.
func imagesAt(t *testing.T, n, k int, f func(*mpi.Comm) error) []string {
	t.Helper()
	c := jobtest.New(n, jobtest.Options{Dir: t.TempDir()})
	defer c.Stop()
	var parked []<-chan struct{}
	for _, j := range c.Jobs {
		parked = append(parked, j.ParkAt(uint64(k-1)))
	}
	wait := ranks(c, f)
	for _, there := range parked {
		<-there
	}
	images, err := c.Checkpoint(true)
	if err != nil {
		t.Fatal(err)
	}
	c.Fail(engine.ErrAborted)
	wait()
	return images
}

// again restarts n ranks from images.
func again(n int, images []string, files string, f func(*mpi.Comm) error) []error {
	c := jobtest.New(n, jobtest.Options{Images: images, Files: files})
	defer c.Stop()
	return ranks(c, f)()
}

// logger writes a head, and a line at each of its Points. What it writes after the Point at which it is ended is
// to be taken back.
func logger(dir string, flag, lines int) func(*mpi.Comm) error {
	return func(c *mpi.Comm) error {
		r := cr.On(c)
		f, err := r.File(filepath.Join(dir, fmt.Sprint(c.Rank())), flag, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		i := 0
		if err := r.Register("i", &i); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(f, "begun at %d\n", i); err != nil {
			return err
		}
		for ; i < lines; i++ {
			err := r.Point()
			if _, err := fmt.Fprintf(f, "line %d of rank %d\n", i, c.Rank()); err != nil {
				return err
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFileGoesBack(t *testing.T) {
	for name, flag := range map[string]int{
		"truncated": os.O_WRONLY | os.O_CREATE | os.O_TRUNC, "appended": os.O_WRONLY | os.O_CREATE | os.O_APPEND,
		"exclusive": os.O_RDWR | os.O_CREATE | os.O_EXCL,
	} {
		t.Run(name, func(t *testing.T) {
			undisturbed, dir := t.TempDir(), t.TempDir()
			noErrors(t, again(2, nil, "", logger(undisturbed, flag, 9)))
			images := imagesAt(t, 2, 5, logger(dir, flag, 9))
			path := filepath.Join(dir, "1")
			before := content(t, path)
			for _, policy := range []string{"copy", "refuse"} { // the copy leaves all as it is for the second
				noErrors(t, again(2, images, policy, logger(dir, flag, 9)))
				if policy == "copy" {
					if got := content(t, path); got != before {
						t.Errorf("the file itself was changed to %q", got)
					}
					path += ".gorun-0000000000000007"
				}
				if got, want := content(t, path), content(t, filepath.Join(undisturbed, "1")); got != want {
					t.Errorf("%s: after the restart it holds %q, undisturbed %q", policy, got, want)
				}
				path = filepath.Join(dir, "1")
			}
			if got := content(t, path+".gorun-0000000000000007-tail"); got != "line 4 of rank 1\n" {
				t.Errorf("the tail holds %q", got)
			}
		})
	}
}

// A second snapshot of a run that goes on in a copy finds the copy again.
func TestFileInCopyOfCopy(t *testing.T) {
	dir, flag := t.TempDir(), os.O_WRONLY|os.O_CREATE
	images := imagesAt(t, 1, 3, logger(dir, flag, 9))
	c := jobtest.New(1, jobtest.Options{Images: images, Files: "copy", Dir: t.TempDir()})
	there := c.Jobs[0].ParkAt(3)
	wait := ranks(c, logger(dir, flag, 9))
	<-there
	images, err := c.Checkpoint(true)
	if err != nil {
		t.Fatal(err)
	}
	c.Fail(engine.ErrAborted)
	wait()
	c.Stop()
	noErrors(t, again(1, images, "", logger(dir, flag, 9)))
	if got := strings.Count(content(t, filepath.Join(dir, "0.gorun-0000000000000007")), "line"); got != 9 {
		t.Errorf("the copy has %d lines", got)
	}
}

func TestFileRefused(t *testing.T) {
	const text = "another file, that is longer than the one that was open: 0123456789012345678901234567890123456789\n"
	for name, try := range map[string]struct {
		damage func(path string) error
		says   string
	}{
		"shorter": {func(path string) error { return os.Truncate(path, 12) }, "it has 12 bytes"},
		"missing": {os.Remove, "missing"},
		"another": {func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte(text+text), 0o644))
		}, "another file"},
		"folder": {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o755)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, flag := t.TempDir(), os.O_RDWR|os.O_CREATE
			images := imagesAt(t, 1, 4, logger(dir, flag, 9))
			path := filepath.Join(dir, "0")
			if err := try.damage(path); err != nil {
				t.Fatal(err)
			}
			err := again(1, images, "", logger(dir, flag, 9))[0]
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "rank 0") || !strings.Contains(err.Error(), try.says) {
				t.Errorf("the restart says %v", err)
			}
			if name == "another" {
				noErrors(t, again(1, images, "keep", logger(dir, flag, 9)))
			}
		})
	}
}

// A backup of the file is as good as the file.
func TestFileFromABackup(t *testing.T) {
	dir, flag := t.TempDir(), os.O_WRONLY|os.O_CREATE
	images := imagesAt(t, 1, 4, logger(dir, flag, 9))
	path := filepath.Join(dir, "0")
	saved := content(t, path)
	if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, []byte(saved), 0o644)); err != nil {
		t.Fatal(err)
	}
	noErrors(t, again(1, images, "", logger(dir, flag, 9)))
	if got := strings.Count(content(t, path), "line"); got != 9 {
		t.Errorf("%d lines", got)
	}
}

// What is read before the first Point is read again, then what follows the Point of the image.
func TestFileIsReadOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, []byte("abcdefghij"), 0o644); err != nil {
		t.Fatal(err)
	}
	var got string
	reader := func(c *mpi.Comm) error {
		r, i, read := cr.On(c), 0, ""
		f, err := r.File(path, os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		next := func() {
			b := []byte{'!'}
			_, _ = f.Read(b)
			read += string(b)
		}
		next()
		if err := errors.Join(r.Register("i", &i), r.Register("read", &read)); err != nil {
			return err
		}
		for ; i < 9; i++ {
			if err := r.Point(); err != nil {
				return err
			}
			next()
		}
		got = read
		return nil
	}
	images := imagesAt(t, 1, 5, reader)
	noErrors(t, again(1, images, "", reader))
	if got != "abcdefghij" {
		t.Errorf("it has read %q", got)
	}
}

// A file that was closed before the Point has what it had.
func TestFileThatWasClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result")
	program := func(c *mpi.Comm) error {
		r, i := cr.On(c), 0
		f, err := r.File(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err := errors.Join(err, r.Register("i", &i)); err != nil {
			return err
		}
		for ; i < 6; i++ {
			if err := r.Point(); err != nil {
				return err
			}
			if i == 1 {
				if _, err := io.WriteString(f, "the result"); err != nil {
					return err
				}
				f.Close()
			}
		}
		return f.Close()
	}
	images := imagesAt(t, 1, 4, program)
	noErrors(t, again(1, images, "", program))
	if got := content(t, path); got != "the result" {
		t.Errorf("it holds %q", got)
	}
}

func TestFileOfTwoRanks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared")
	errs := make([]error, 2)
	noErrors(t, again(2, nil, "", func(c *mpi.Comm) error {
		f, err := cr.On(c).File(path, os.O_WRONLY|os.O_CREATE, 0o644)
		if errs[c.Rank()] = err; err == nil {
			defer f.Close()
		}
		return mpi.Barrier(c) // neither has closed it, nor ended
	}))
	failed := slices.IndexFunc(errs, func(err error) bool { return errors.Is(err, cr.ErrFile) })
	if failed < 0 || !strings.Contains(errs[failed].Error(), path) {
		t.Errorf("got %v", errs)
	}
}

// A checkpoint names the file that a restart would not find.
func TestFileThatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "moved")
	c := jobtest.New(1, jobtest.Options{Dir: t.TempDir()})
	defer c.Stop()
	there := c.Jobs[0].ParkAt(2)
	wait := ranks(c, func(w *mpi.Comm) error {
		f, err := cr.On(w).File(path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := os.Rename(path, path+".1"); err != nil {
			return err
		}
		for range 5 {
			if err := cr.On(w).Point(); err != nil {
				return err
			}
		}
		return nil
	})
	<-there
	if _, err := c.Checkpoint(false); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the checkpoint says %v", err)
	}
	noErrors(t, wait())
}

// A program that empties the file itself, before its first Point, is told that what was there is gone.
func TestFileIsEmptiedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	program := func(c *mpi.Comm) error {
		i, r := 0, cr.On(c)
		f, err := r.File(path, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := errors.Join(f.Truncate(0), r.Register("i", &i)); err != nil {
			return err
		}
		for ; i < 9; i++ {
			if err := r.Point(); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(f, "line", i); err != nil {
				return err
			}
		}
		return nil
	}
	images := imagesAt(t, 1, 4, program)
	if err := again(1, images, "", program)[0]; !errors.Is(err, cr.ErrFile) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "os.O_TRUNC") {
		t.Errorf("the restart says %v", err)
	}
}

// With a File another number of ranks is refused, and the error says that it is the file.
func TestFileIsOneRanks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	images := imagesAt(t, 2, 3, func(c *mpi.Comm) error {
		i, r := 0, cr.On(c)
		if c.Rank() == 0 {
			f, err := r.File(path, os.O_WRONLY|os.O_CREATE, 0o644)
			if err != nil {
				return err
			}
			defer f.Close()
		}
		if err := r.Register("i", dist.Replicated(&i)); err != nil {
			return err
		}
		for ; i < 9; i++ {
			if err := r.Point(); err != nil {
				return err
			}
		}
		return nil
	})
	err := self.Resizable(image.Paths(images))
	if !errors.Is(err, self.ErrResize) || !strings.Contains(err.Error(), path+`" on rank 0: a file of cr.File`) {
		t.Errorf("got %v", err)
	}
}

// Functions of Rebuild run in the order of their calls, at each call, and again when all variables are filled.
func TestRebuild(t *testing.T) {
	var log []string
	program := func(c *mpi.Comm) error {
		r, n := cr.On(c), 3
		note := func(what string) func() error {
			return func() error { log = append(log, fmt.Sprintf("%s of %d", what, n)); return nil }
		}
		r.OnRestart(note("connections"))
		if err := errors.Join(r.Rebuild(note("tables")), r.Rebuild(note("index")), r.Register("n", &n)); err != nil {
			return err
		}
		for ; n < 9; n++ {
			if err := r.Point(); err != nil {
				return err
			}
		}
		return nil
	}
	images := imagesAt(t, 1, 3, program)
	log = nil
	noErrors(t, again(1, images, "", program))
	want := "[tables of 3 index of 3 tables of 5 index of 5 connections of 5]"
	if got := fmt.Sprint(log); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	broken := errors.New("broken")
	failing := func(c *mpi.Comm) error {
		r, n := cr.On(c), 0
		if err := r.Register("n", &n); err != nil {
			return err
		}
		if err := r.Rebuild(func() error {
			if n > 3 {
				return broken
			}
			return nil
		}); err != nil && n == 3 {
			return err
		}
		return r.Point()
	}
	if errs := again(1, images, "", failing); !errors.Is(errs[0], broken) {
		t.Errorf("got %v", errs)
	}
}
