//go:build amd64

package native

import (
	"bufio"
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

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestMain removes the program that the tests image.
func TestMain(m *testing.M) {
	if program := os.Getenv(agentVar); program != "" {
		agentMain(program)
	}
	code := m.Run()
	if dir, err := victimDir(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

var victimDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "victim")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
})

// victim is a running program that a test images.
type victim struct {
	t      testing.TB
	cmd    *exec.Cmd
	pid    int
	oob    *os.File // our end of descriptor 3 there
	in     io.WriteCloser
	out    *bufio.Reader
	target *target
	asked  int
}

// newVictim starts the program; it is ended with the test.
func newVictim(t testing.TB, tr *tracer, what ...string) *victim {
	t.Helper()
	return startVictim(t, tr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, what...)
}

func startVictim(t testing.TB, tr *tracer, attr *syscall.SysProcAttr, what ...string) *victim {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "oob")
	v := &victim{t: t, cmd: exec.Command(build(t, "victim", "default"), what...), oob: os.NewFile(uintptr(pair[0]), "oob")}
	v.cmd.ExtraFiles = []*os.File{theirs}
	v.cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	v.cmd.Stderr = os.Stderr
	v.cmd.SysProcAttr = attr
	v.in, _ = v.cmd.StdinPipe()
	out, _ := v.cmd.StdoutPipe()
	v.out = bufio.NewReader(out)
	tr.Do(func() { err = v.cmd.Start() })
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	v.pid = v.cmd.Process.Pid
	t.Cleanup(v.end)
	if v.target, err = attachTo(tr, v.pid, 7, 3); err != nil {
		t.Fatal(err)
	}
	if line := v.line(); line != "ready" {
		t.Fatal(line)
	}
	return v
}

// attachTo attaches to a program whose streams are what it was given.
func attachTo(tr *tracer, pid, rank, oob int) (*target, error) {
	std := [3]int{-1, -1, -1}
	for i := range std {
		if fd, err := unix.Open(fdPath(pid, i), unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
			std[i] = fd
			defer unix.Close(fd)
		}
	}
	return tr.attach(pid, rank, oob, std)
}

func (v *victim) end() {
	v.target.Close()
	v.oob.Close()
	v.in.Close()
	v.cmd.Process.Kill()
	v.cmd.Wait()
}

func (v *victim) line() string {
	line, err := v.out.ReadString('\n')
	if err != nil {
		v.t.Errorf("the program has ended: %v", err)
	}
	return strings.TrimSpace(line)
}

// works checks that the program goes on.
func (v *victim) works() {
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

// capture images the program and returns what the image holds.
func (v *victim) capture(opt whole.CaptureOptions) (*State, *image.Reader) {
	v.t.Helper()
	c, err := v.target.capture(opt)
	if err != nil {
		v.t.Fatal(err)
	}
	defer c.Release()
	return v.write(c)
}

func (v *victim) write(c *captured) (*State, *image.Reader) {
	v.t.Helper()
	path := filepath.Join(v.t.TempDir(), "image")
	if _, err := c.Write(path, image.LocalMeta(), image.Options{}); err != nil {
		v.t.Fatal(err)
	}
	pid := c.PID()
	if err := c.Release(); err != nil {
		v.t.Error(err)
	}
	if pid != 0 && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		v.t.Errorf("the copy %d is still there", pid)
	}
	r, err := image.Open(path)
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { r.Close() })
	if err := r.Verify(); err != nil {
		v.t.Error(err)
	}
	s, err := ReadState(path)
	if err != nil {
		v.t.Fatal(err)
	}
	return s, r
}
