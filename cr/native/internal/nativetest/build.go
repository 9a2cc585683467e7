// Package nativetest has what the tests of native images have in common: programs that
// are imaged, and looks at processes and their memory from outside.
package nativetest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// testdata is where the sources of the programs are.
const testdata = "github.com/gorun-mpi/gorun/cr/native/internal/nativetest/testdata/"

// Main runs the tests of a package, and removes the programs that they have built.
func Main(m *testing.M) {
	code := m.Run()
	if dir, err := folder(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// folder is where the programs are, for all users.
var folder = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "victim")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
})

// Builds are the ways to build the program of the trips, by name.
var Builds = map[string]struct {
	flags []string
	env   []string
}{
	"default":  {},
	"stripped": {flags: []string{"-ldflags=-s -w"}},
	"pie":      {flags: []string{"-buildmode=pie"}},
	"go1.25":   {env: []string{"GOTOOLCHAIN=go1.25.4"}},
}

var built sync.Map // name of the build -> func() (string, error)

// Build builds a program in testdata once.
func Build(t testing.TB, program, how string) string {
	t.Helper()
	if dir := os.Getenv(ProgramsVar); dir != "" {
		return prebuilt(t, dir, program+"-"+how)
	}
	f, _ := built.LoadOrStore(program+"-"+how, sync.OnceValues(func() (string, error) {
		dir, err := folder()
		if err != nil {
			return "", err
		}
		out := filepath.Join(dir, program+"-"+how)
		b := Builds[how]
		cmd := exec.Command("go", append(append([]string{"build", "-o", out}, b.flags...), testdata+program)...)
		cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), b.env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %s", err, text)
		}
		return out, nil
	}))
	path, err := f.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ProgramsVar names a folder with programs that were built before.
const ProgramsVar = "GORUN_TEST_NATIVE_PROGRAMS"

func copyExecutable(to string) error {
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

// Unprivileged runs tests of this package once more as an ordinary user, and gives what
// they say. The programs that they use are built before.
func Unprivileged(t *testing.T, tests string, programs ...string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("they all run as an ordinary user")
	}
	const nobody = 65534
	for _, program := range programs {
		Build(t, program, "default")
	}
	dir, err := folder()
	if err != nil {
		t.Fatal(err)
	}
	tmp, err := os.MkdirTemp(dir, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	self := tmp + ".test"
	if err := errors.Join(copyExecutable(self), os.Chown(tmp, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.v", fmt.Sprintf("-test.short=%v", testing.Short()), "-test.run="+tests)
	cmd.Dir = tmp
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp, ProgramsVar+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// Passed counts the tests that passed in what unprivileged gives.
func Passed(out string) int {
	return strings.Count(out, "\n--- PASS: Test") + strings.Count(out, "\n--- SKIP: TestHugePages")
}
