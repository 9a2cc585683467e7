//go:build amd64

package native

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// program is a running victim: a program that a test images.
type program struct {
	t     testing.TB
	cmd   *exec.Cmd
	pid   int
	oob   *os.File // our end of descriptor 3 there
	in    io.WriteCloser
	out   *bufio.Reader
	asked int
}

// startProgram starts a victim by do, on whose thread its life depends; it is ended with
// the test. Arguments tell what it is to do.
func startProgram(t testing.TB, do func(func()), attr *syscall.SysProcAttr, what ...string) *program {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "oob")
	v := &program{t: t, cmd: exec.Command(build(t, "victim", "default"), what...), oob: os.NewFile(uintptr(pair[0]), "oob")}
	v.cmd.ExtraFiles = []*os.File{theirs}
	v.cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	v.cmd.Stderr = os.Stderr
	v.cmd.SysProcAttr = attr
	v.in, _ = v.cmd.StdinPipe()
	out, _ := v.cmd.StdoutPipe()
	v.out = bufio.NewReader(out)
	do(func() { err = v.cmd.Start() })
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	v.pid = v.cmd.Process.Pid
	t.Cleanup(v.end)
	if line := v.line(); line != "ready" {
		t.Fatal(line)
	}
	return v
}

// end ends it.
func (v *program) end() {
	v.oob.Close()
	v.in.Close()
	v.cmd.Process.Kill()
	v.cmd.Wait()
}

// line is what it says next.
func (v *program) line() string {
	line, err := v.out.ReadString('\n')
	if err != nil {
		v.t.Errorf("the program has ended: %v", err)
	}
	return strings.TrimSpace(line)
}

// works checks that the program goes on.
func (v *program) works() {
	v.t.Helper()
	for range 2 {
		v.asked++
		fmt.Fprintln(v.in, v.asked)
		var n int
		var spun uint64
		var memory string
		if _, err := fmt.Sscan(v.line(), &n, &spun, &memory); err != nil || n != v.asked || memory != "whole" {
			v.t.Fatalf("the program does not work any more: %d, %s, %v", n, memory, err)
		}
	}
	// No thread may be left stopped or traced.
	tids, err := proc.Threads(v.pid)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, tid := range tids {
		s, err := proc.Parsed(tid, "status", proc.ParseStatus)
		if err == nil && s.Tracer != 0 {
			v.t.Errorf("thread %d is still traced", tid)
		}
	}
}
