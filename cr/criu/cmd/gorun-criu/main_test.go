package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInfo installs the command, as a user does. The back-end is known there, and
// says whether it works. The native one stays the default.
func TestInfo(t *testing.T) {
	dir := t.TempDir()
	install := exec.Command("go", "install", ".")
	install.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	info := exec.Command(filepath.Join(dir, "gorun-criu"), "info")
	info.Env = append(os.Environ(), "PATH="+dir, "HOME="+dir)
	out, err := info.CombinedOutput()
	if err != nil {
		t.Fatalf("info: %v\n%s", err, out)
	}
	words := strings.Join(strings.Fields(string(out)), " ") // lines are wrapped
	native, criu := strings.Index(words, "back-end (-cr) native "), strings.Index(words, "back-end (-cr) criu ")
	if native < 0 || criu < native {
		t.Fatalf("native and criu are not listed in this order:\n%s", out)
	}
	if want := `cannot be used here: no usable criu: exec: "criu": executable file not found in $PATH`; !strings.Contains(words[criu:], want) {
		t.Errorf("%s lacks %q", words[criu:], want)
	}
}

// TestNoLinks: a source that is a link is missing where go install fetches a module.
func TestNoLinks(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink != 0 {
			t.Errorf("%s is a link", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
