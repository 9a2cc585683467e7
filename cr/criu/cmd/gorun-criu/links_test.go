package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const gorun = "../../../../cmd/gorun"

// TestLinks: a file of cmd/gorun without its link here would be missed late, if
// at all.
func TestLinks(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(gorun, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		if got, err := os.Readlink(filepath.Base(f)); err != nil || got != f {
			t.Errorf("make a link: ln -s %s (%q, %v)", f, got, err)
		}
	}
}

// TestInfo: the back-end is known here, and says whether it works.
func TestInfo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	if code := dispatch([]string{"info"}, stdio{strings.NewReader(""), &out, os.Stderr}); code != 0 {
		t.Fatalf("exit status %d", code)
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "back-end") && strings.Contains(line, " criu ") {
			if want := `cannot be used here: no usable criu: exec: "criu": executable file not found in $PATH`; !strings.Contains(line, want) {
				t.Errorf("%s lacks %q", line, want)
			}
			return
		}
	}
	t.Errorf("criu is not listed:\n%s", out.String())
}
