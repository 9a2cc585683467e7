//go:build amd64

package nativetest

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

// Victim is a running victim: a program that a test images.
type Victim struct {
	T     testing.TB
	Cmd   *exec.Cmd
	PID   int
	OOB   *os.File // our end of descriptor 3 there
	In    io.WriteCloser
	out   *bufio.Reader
	asked int
}

// StartVictim starts a victim by do, on whose thread its life depends; it is ended with
// the test. Arguments tell what it is to do.
func StartVictim(t testing.TB, do func(func()), attr *syscall.SysProcAttr, what ...string) *Victim {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "oob")
	v := &Victim{T: t, Cmd: exec.Command(Build(t, "victim", "default"), what...), OOB: os.NewFile(uintptr(pair[0]), "oob")}
	v.Cmd.ExtraFiles = []*os.File{theirs}
	v.Cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	v.Cmd.Stderr = os.Stderr
	v.Cmd.SysProcAttr = attr
	v.In, _ = v.Cmd.StdinPipe()
	out, _ := v.Cmd.StdoutPipe()
	v.out = bufio.NewReader(out)
	do(func() { err = v.Cmd.Start() })
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	v.PID = v.Cmd.Process.Pid
	t.Cleanup(v.End)
	if line := v.Line(); line != "ready" {
		t.Fatal(line)
	}
	return v
}

// End ends it.
func (v *Victim) End() {
	v.OOB.Close()
	v.In.Close()
	v.Cmd.Process.Kill()
	v.Cmd.Wait()
}

// Line is what it says next.
func (v *Victim) Line() string {
	line, err := v.out.ReadString('\n')
	if err != nil {
		v.T.Errorf("the program has ended: %v", err)
	}
	return strings.TrimSpace(line)
}

// Works checks that the program goes on.
func (v *Victim) Works() {
	v.T.Helper()
	for range 2 {
		v.asked++
		fmt.Fprintln(v.In, v.asked)
		var n int
		var spun uint64
		var memory string
		if _, err := fmt.Sscan(v.Line(), &n, &spun, &memory); err != nil || n != v.asked || memory != "whole" {
			v.T.Fatalf("the program does not work any more: %d, %s, %v", n, memory, err)
		}
	}
	// No thread may be left stopped or traced.
	tids, err := proc.Threads(v.PID)
	if err != nil {
		v.T.Fatal(err)
	}
	for _, tid := range tids {
		s, err := proc.Parsed(tid, "status", proc.ParseStatus)
		if err == nil && s.Tracer != 0 {
			v.T.Errorf("thread %d is still traced", tid)
		}
	}
}
