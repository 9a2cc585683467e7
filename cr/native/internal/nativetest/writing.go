package nativetest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Writer is the child as the test sees it.
type Writer struct {
	T     testing.TB
	PID   int
	Pidfd int
	in    *os.File
	out   *bufio.Scanner
	Uffd  int
	Mem   *os.File
}

// StartWriter starts one; it is ended with the test.
func StartWriter(t testing.TB) *Writer {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), dirtyChildVar+"=1", "GOMAXPROCS=2")
	cmd.Stderr = os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	p := &Writer{T: t, PID: cmd.Process.Pid, in: w, out: bufio.NewScanner(out), Uffd: -1}
	t.Cleanup(func() {
		w.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if p.Pidfd, err = unix.PidfdOpen(p.PID, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p.Pidfd) })
	p.Ask("close", p.Ask("userfaultfd", 0)) // once it answers, its executable is in place
	if p.Mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", p.PID)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Mem.Close() })
	return p
}

// Ask has the program do something and returns its answer.
func (p *Writer) Ask(what string, n int) int {
	p.T.Helper()
	p.Tell(what, n)
	return p.Answer(what)
}

// Tell has the program do something, while the test goes on.
func (p *Writer) Tell(what string, n int) {
	p.T.Helper()
	if _, err := fmt.Fprintln(p.in, what, n); err != nil {
		p.T.Fatal(err)
	}
}

// Answer waits for what it answers to Tell.
func (p *Writer) Answer(what string) int {
	p.T.Helper()
	if !p.out.Scan() {
		p.T.Fatalf("the program ended when it was asked to %s", what)
	}
	v, err := strconv.Atoi(p.out.Text())
	if err != nil && p.out.Text() != "ok" {
		p.T.Fatalf("%s: %s", what, p.out.Text())
	}
	return v
}

// Stop stops all its threads. Unless it is followed already, it has a
// userfaultfd ready then: here the program itself has opened it, beforehand.
func (p *Writer) Stop(followed bool) {
	p.T.Helper()
	if !followed {
		p.Uffd = p.Ask("userfaultfd", 0)
	}
	if err := unix.Kill(p.PID, unix.SIGSTOP); err != nil {
		p.T.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.PID, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		p.T.Fatal(ws, err)
	}
}

// Resume lets it go on.
func (p *Writer) Resume() {
	if err := unix.Kill(p.PID, unix.SIGCONT); err != nil {
		p.T.Fatal(err)
	}
	if p.Uffd >= 0 {
		p.Ask("close", p.Uffd)
		p.Uffd = -1
	}
}
