package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const modulePath = "github.com/gorun-mpi/gorun/"

// goBuild builds a package of this project as a user would.
func goBuild(t *testing.T, h *house, pkg string, env []string, flags ...string) (exe string, err error) {
	t.Helper()
	exe = filepath.Join(h.dir("bin"), filepath.Base(pkg))
	cmd := exec.Command("go", append(append([]string{"build", "-o", exe}, flags...), modulePath+pkg)...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", &buildError{err, string(out)}
	}
	return exe, os.Chmod(h.dir("bin"), 0o755)
}

type buildError struct {
	err error
	out string
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.out }

// TestNativeBuilds images programs however they were built: a plain go build on
// a machine with a C compiler, stripped, as position independent code, with the
// older Go version, and with threads of C beside those of Go.
func TestNativeBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs in many ways; skipped with -short")
	}
	for _, c := range []struct {
		name  string
		env   []string
		flags []string
	}{
		{"plain", []string{"CGO_ENABLED=1"}, nil},
		{"stripped", []string{"CGO_ENABLED=0"}, []string{"-ldflags=-s -w"}},
		{"pie", []string{"CGO_ENABLED=0"}, []string{"-buildmode=pie"}},
		{"cgo", []string{"CGO_ENABLED=1"}, []string{"-tags=withc"}},
		{"go1.25.4", []string{"CGO_ENABLED=0", "GOTOOLCHAIN=go1.25.4", "GOFLAGS=-buildvcs=false"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := nativeHouse(t)
			if _, err := exec.LookPath("gcc"); err != nil && c.name == "cgo" {
				t.Skip("gcc is not installed")
			}
			exe, err := goBuild(t, h, "internal/e2e/subject", c.env, c.flags...)
			if err != nil {
				if strings.HasPrefix(c.name, "go1") && os.Getenv("CI") != "true" {
					t.Skipf("cannot be had here: %v", err)
				}
				t.Fatal(err)
			}
			dir := h.folder("stage")
			for _, scene := range []string{"tight", "collectives"} {
				r := h.nativeRun(3, nil, exe, "-dir", dir, scene)
				r.inPlace(3)
				schema := r.checkpoint()
				r.kill()
				r = h.restart(schema)
				schema = r.checkpoint()
				r.kill()
				r = h.restart(schema)
				h.signal(dir, "go")
				r.ended()
				os.Remove(filepath.Join(dir, "go"))
			}
		})
	}
}

// TestNativeRefusedPrograms says at the start of a job what cannot be imaged.
func TestNativeRefusedPrograms(t *testing.T) {
	h := nativeHouse(t)
	script := filepath.Join(h.folder("bin"), "script")
	text := fmt.Sprintf("#!/bin/sh\nexec %s/subject\n", bin) // else gorun would be the rank, and the script its child
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := h.gorun("-np", "2", "-cr=native", script); code == 0 || !strings.Contains(errs, "interpreter") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}
