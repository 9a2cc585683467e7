package snapshot

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const tailEnd = ".gorun-0123456789abcdef-tail"

func TestTails(t *testing.T) {
	c := catalogue(t)
	dir := t.TempDir()
	var want []string
	for _, name := range []string{"log" + tailEnd, "log" + tailEnd + "2", "a \xe9\nb\"" + tailEnd} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("what was cut off"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.AddTail(jobA, path); err != nil {
				t.Fatal(err)
			}
		}
		want = append(want, path)
	}
	is := func(what string, got []string, err error, want []string) {
		t.Helper()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	all, err := c.Tails(jobA)
	is("all", all, err, want)
	all, err = c.Tails(jobB)
	is("of another job", all, err, nil)
	if err := os.Remove(want[0]); err != nil {
		t.Fatal(err)
	}
	all, err = c.Tails(jobA)
	is("one is gone", all, err, want[1:])
	all, err = c.RemoveTails(jobA)
	is("removed", all, err, want[1:])
	if es, err := os.ReadDir(dir); err != nil || len(es) != 0 {
		t.Error(es, err)
	}
	all, err = c.RemoveTails(jobA)
	is("removed again", all, err, nil)
	if err := c.Remove(jobA); err != nil {
		t.Error(err)
	}
}

// A file that is no tail is neither noted nor removed.
func TestNoTails(t *testing.T) {
	c := catalogue(t)
	precious := filepath.Join(t.TempDir(), "precious")
	for _, path := range []string{"", precious, "x" + tailEnd, precious + ".gorun-x-tail", precious + tailEnd + "/../precious", precious + tailEnd + "x"} {
		if err := c.AddTail(jobA, path); !errors.Is(err, ErrTails) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if err := c.AddTail(jobA, precious+tailEnd); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(precious+tailEnd, 0o700); err != nil {
		t.Fatal(err)
	}
	if gone, err := c.RemoveTails(jobA); !errors.Is(err, ErrTails) || len(gone) > 0 {
		t.Error(gone, err)
	}
	if all, err := c.Tails(jobA); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
	list := filepath.Join(c.JobDir(jobA), tailsFile)
	if err := os.WriteFile(list, []byte("\""+precious+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RemoveTails(jobA); !errors.Is(err, ErrTails) {
		t.Error(err)
	}
	if _, err := c.Tails(jobA); !errors.Is(err, ErrTails) {
		t.Error(err)
	}
}

func FuzzParseTails(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(formatPaths([]string{"/a" + tailEnd, "/b\xff\n" + tailEnd + "7"}))
	f.Add([]byte("\"/etc/passwd\"\n"))
	f.Add([]byte("\"/a" + tailEnd))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parseTails(b)
		if err != nil {
			return
		}
		for _, path := range all {
			if !isTail(path) {
				t.Fatalf("%q", path)
			}
		}
		again, err := parseTails(formatPaths(all))
		if err != nil || !slices.Equal(again, all) {
			t.Fatalf("%q, %v, from %q", again, err, bytes.Clone(b))
		}
	})
}
