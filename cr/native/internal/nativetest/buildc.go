package nativetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// CBuilds are the ways to build a program of C's, or of Go with cgo, by name: the
// compiler, and its arguments before the names of the program and of its source.
var CBuilds = map[string][]string{
	"c":          {"gcc", "-O1", "-pthread", "-o"},
	"c-static":   {"gcc", "-O1", "-pthread", "-static", "-o"},
	"musl":       {"musl-gcc", "-O1", "-pthread", "-static", "-o"},
	"cgo":        {"go", "build", "-o"},
	"cgo-pie":    {"go", "build", "-buildmode=pie", "-ldflags=-s -w", "-o"},
	"cgo-static": {"go", "build", "-ldflags=-linkmode=external -extldflags=-static", "-o"},
}

// Interpreters are those of programs that are not built, by the same names.
var Interpreters = map[string]string{
	"python": "/usr/bin/python3",
}

// BuildC builds a program in testdata once, and gives the executable and the arguments
// that it is to have before all others. A test that needs it is skipped where there is no
// compiler or interpreter.
func BuildC(t testing.TB, program, how string) (executable string, before []string) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	if by := Interpreters[how]; by != "" {
		if _, err := os.Stat(by); err != nil {
			t.Skip(err)
		}
		return by, []string{script(t, filepath.Join(filepath.Dir(here), "testdata", program, program+".py"))}
	}
	if dir := os.Getenv(ProgramsVar); dir != "" {
		return prebuilt(t, dir, program+"-"+how), nil
	}
	with := CBuilds[how]
	needs := []string{with[0], "gcc"}
	for _, tool := range needs {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("building %s needs %s: %v", program, tool, err)
		}
	}
	f, _ := built.LoadOrStore(program+"-"+how, sync.OnceValues(func() (string, error) {
		dir, err := folder()
		if err != nil {
			return "", err
		}
		out := filepath.Join(dir, program+"-"+how)
		source := filepath.Join(filepath.Dir(here), "testdata", program)
		if !strings.HasPrefix(how, "cgo") {
			source = filepath.Join(source, program+".c")
		}
		cmd := exec.Command(with[0], append(append([]string{}, with[1:]...), out, source)...)
		cmd.Dir = filepath.Dir(here)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %s", err, text)
		}
		return out, nil
	}))
	path, err := f.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path, nil
}

// script gives a copy of a program's text that all users may read.
func script(t testing.TB, source string) string {
	t.Helper()
	if dir := os.Getenv(ProgramsVar); dir != "" {
		return prebuilt(t, dir, filepath.Base(source))
	}
	dir, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	path := filepath.Join(dir, filepath.Base(source))
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// prebuilt finds a program that was built before, for tests as another user.
func prebuilt(t testing.TB, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	return path
}
