package arguments

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestNames(t *testing.T) {
	known := []string{"heat", "solver"}
	if names, err := Names("test", "solver,heat", known); err != nil || !slices.Equal(names, []string{"solver", "heat"}) {
		t.Errorf("%q, %v", names, err)
	}
	for _, list := range []string{"", "heat,", "heat,cold"} {
		if _, err := Names("test", list, known); err == nil || !strings.Contains(err.Error(), "only heat, solver") {
			t.Errorf("%q: %v", list, err)
		}
	}
}

// To look changes nothing: no file appears, and none is emptied.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	old, none, pipe := filepath.Join(dir, "old"), filepath.Join(dir, "none"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.WriteFile(old, []byte("text"), 0o600), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Writable(old, none, pipe, os.DevNull); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "text" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if _, err := os.Lstat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
	for name, want := range map[string]error{dir: syscall.EISDIR, filepath.Join(none, "x"): fs.ErrNotExist, filepath.Join(old, "x"): syscall.ENOTDIR} {
		if err := Writable(old, name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
