package stdio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// none fails the test when output is lost.
func none(t *testing.T) func(error) {
	return func(err error) { t.Errorf("lost: %v", err) }
}

func openFiles(t *testing.T, dir, job string, ranks int, goesOn bool) *Files {
	t.Helper()
	f, err := OpenFiles(dir, job, ranks, goesOn, none(t))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// say has a printer write pieces of standard output, as "rank text", and closes it.
func say(t *testing.T, f *Files, tag bool, pieces ...string) {
	t.Helper()
	var gorun strings.Builder
	p := NewPrinter(io.Discard, &gorun, tag)
	p.Files = f
	for _, x := range pieces {
		var rank int32
		at := strings.IndexByte(x, ' ')
		fmt.Sscan(x[:at], &rank)
		p.Print(Piece{Rank: rank, Stream: 1, Data: []byte(x[at+1:]), Credit: func(int) {}})
	}
	p.Print(Piece{Rank: -1, Stream: 2, Data: []byte("gorun: a word\n"), Credit: func(int) {}})
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if gorun.String() != "gorun: a word\n" {
		t.Errorf("gorun's own words: %q", gorun.String())
	}
}

func holds(t *testing.T, dir, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
		t.Errorf("%s: %q, %v, want %q", name, got, err, want)
	}
}

func gone(t *testing.T, dir, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there: %v", name, err)
	}
}

// A new job empties the files, and removes those of ranks that it does not have. A job that goes on
// appends.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	say(t, openFiles(t, dir, "one", 3, false), false, "0 a\n", "2 c", "0 b\n", "2 d\n")
	holds(t, dir, "rank.0.out", "a\nb\n")
	holds(t, dir, "rank.1.out", "")
	holds(t, dir, "rank.2.out", "cd\n")
	holds(t, dir, "rank.2.err", "")
	say(t, openFiles(t, dir, "one", 3, true), false, "2 e\n")
	holds(t, dir, "rank.2.out", "cd\ne\n")
	say(t, openFiles(t, dir, "two", 2, false), true, "0 a\nb", "1 c\n", "0 c\n")
	holds(t, dir, "rank.0.out", "[0] a\n[0] bc\n")
	holds(t, dir, "rank.1.out", "[1] c\n")
	gone(t, dir, "rank.2.out")
	gone(t, dir, "rank.2.err")
	if _, err := OpenFiles(dir, "one", 3, true, none(t)); !errors.Is(err, ErrOthers) || !strings.Contains(err.Error(), "two") {
		t.Errorf("the folder is another job's by now: %v", err)
	}
	holds(t, dir, "rank.0.out", "[0] a\n[0] bc\n")
}

// Two never write to the same files.
func TestFilesBusy(t *testing.T) {
	dir := t.TempDir()
	f := openFiles(t, dir, "one", 1, false)
	for _, goesOn := range []bool{false, true} {
		if _, err := OpenFiles(dir, "one", 1, goesOn, none(t)); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v", err)
		}
	}
	say(t, f, false, "0 a\n")
	say(t, openFiles(t, dir, "one", 1, true), false, "0 b\n")
	holds(t, dir, "rank.0.out", "a\nb\n")
}

// A full disk loses output, says so once, and again when there was room in between.
func TestFilesFull(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rank.1.out")
	full := func() {
		t.Helper()
		os.Remove(path)
		if err := os.Symlink("/dev/full", path); err != nil {
			t.Fatal(err)
		}
	}
	full()
	var told []error
	f, err := OpenFiles(dir, "one", 4, false, func(err error) { told = append(told, err) })
	if err != nil {
		t.Fatal(err)
	}
	f.most = 2
	x := f.of(1, 1)
	write := func(n int) {
		for range n {
			f.write(x, []byte("12345"))
		}
	}
	reopen := func() { // because so many others are
		for rank := int32(2); rank < 4; rank++ {
			f.write(f.of(rank, 1), []byte("."))
		}
	}
	write(2)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	reopen() // which are written, and so it works again
	write(1)
	holds(t, dir, "rank.1.out", "12345")
	full()
	reopen()
	write(3)
	err = f.Close()
	if len(told) != 2 || !errors.Is(told[0], syscall.ENOSPC) || !strings.Contains(told[0].Error(), path) {
		t.Errorf("told %v", told)
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "25 bytes of the ranks' output were lost") || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

// What cannot be a folder is refused before anything is started.
func TestFilesRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFiles(file, "one", 1, false, none(t)); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "rank.1.err"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFiles(dir, "one", 2, false, none(t)); !errors.Is(err, syscall.EISDIR) {
		t.Error(err)
	}
}

// TestFilesProperty prints pieces of ranks, of which not all may have their files open: each file holds its
// rank's, in order.
func TestFilesProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		ranks := rapid.IntRange(1, 6).Draw(rt, "ranks")
		want := map[string]string{}
		f := openFiles(t, dir, "one", ranks, false)
		f.most = rapid.IntRange(1, 4).Draw(rt, "open")
		p := NewPrinter(io.Discard, io.Discard, false)
		p.Files = f
		for range rapid.IntRange(0, 300).Draw(rt, "pieces") {
			rank, stream := rapid.IntRange(0, ranks-1).Draw(rt, "rank"), rapid.IntRange(1, 2).Draw(rt, "stream")
			text := rapid.StringMatching(`[a-z\n]{1,5}`).Draw(rt, "text")
			want[outputPath(dir, rank, stream)] += text
			p.Print(Piece{Rank: int32(rank), Stream: stream, Data: []byte(text), Credit: func(int) {}})
		}
		if err := errors.Join(p.Close(), f.Close()); err != nil {
			rt.Fatal(err)
		}
		for path, text := range want {
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				rt.Errorf("%s: %q, %v, want %q", path, got, err, text)
			}
		}
	})
}
