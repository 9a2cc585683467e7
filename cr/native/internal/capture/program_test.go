//go:build amd64

package capture

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
)

// TestCheckProgram: what counts is what is linked into a program, not how it
// might have been built.
func TestCheckProgram(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	suid := filepath.Join(dir, "suid")
	if err := errors.Join(exec.Command("cp", "/bin/ls", suid).Run(), os.Chmod(suid, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	build := func(name, pkg, env string, flags ...string) string {
		path := filepath.Join(dir, name)
		c := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), pkg)...)
		c.Env = append(os.Environ(), strings.Fields(env)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Logf("%s is left out: %v\n%s", name, err, out)
			return ""
		}
		return path
	}
	// As little as can be: each way to build it compiles all that it imports anew.
	const bare, large, withC = "../nativetest/testdata/bare", "../nativetest/testdata/victim", "../nativetest/testdata/withc"
	for _, c := range []struct{ name, path, refused string }{
		{"default", build("default", bare, "CGO_ENABLED=1"), ""},
		{"large", build("large", large, "CGO_ENABLED=0"), ""},
		{"no cgo", build("nocgo", bare, "CGO_ENABLED=0"), ""},
		{"stripped", build("stripped", bare, "CGO_ENABLED=1", "-ldflags=-s -w"), ""},
		{"position-independent", build("pie", bare, "CGO_ENABLED=0", "-buildmode=pie"), ""},
		{"trimmed", build("trimmed", bare, "CGO_ENABLED=0", "-trimpath", "-buildvcs=false"), ""},
		{"cgo", build("cgo", withC, "CGO_ENABLED=1"), ""},
		{"set-user-id", suid, "another user"},
		{"arm64", build("arm64", bare, "CGO_ENABLED=0 GOARCH=arm64"), "AARCH64"},
		{"C", "/bin/ls", ""},
		{"script", text, "no executable"},
		{"nothing", filepath.Join(dir, "nothing"), "no such file"},
	} {
		if c.path == "" {
			continue
		}
		err := CheckProgram(c.path)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want it to name %q", c.name, err, c.refused)
		case err != nil && c.name != "nothing" && !errors.Is(err, refusal.ErrRefused):
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
