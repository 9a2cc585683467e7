package native

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// dirtyProgram is the child as the test sees it.
type dirtyProgram struct {
	t     testing.TB
	pid   int
	pidfd int
	in    *os.File
	out   *bufio.Scanner
	uffd  int
	mem   *os.File
}

func startDirtyProgram(t testing.TB) *dirtyProgram {
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
	p := &dirtyProgram{t: t, pid: cmd.Process.Pid, in: w, out: bufio.NewScanner(out), uffd: -1}
	t.Cleanup(func() {
		w.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if p.pidfd, err = unix.PidfdOpen(p.pid, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p.pidfd) })
	p.ask("close", p.ask("userfaultfd", 0)) // once it answers, its executable is in place
	if p.mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", p.pid)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.mem.Close() })
	return p
}

// ask has the program do something and returns its answer.
func (p *dirtyProgram) ask(what string, n int) int {
	p.t.Helper()
	p.tell(what, n)
	return p.answer(what)
}

// tell has the program do something, while the test goes on.
func (p *dirtyProgram) tell(what string, n int) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, what, n); err != nil {
		p.t.Fatal(err)
	}
}

func (p *dirtyProgram) answer(what string) int {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the program ended when it was asked to %s", what)
	}
	v, err := strconv.Atoi(p.out.Text())
	if err != nil && p.out.Text() != "ok" {
		p.t.Fatalf("%s: %s", what, p.out.Text())
	}
	return v
}

// stop stops all its threads. Unless it is followed already, it has a
// userfaultfd ready then: here the program itself has opened it, beforehand.
func (p *dirtyProgram) stop(followed bool) {
	p.t.Helper()
	if !followed {
		p.uffd = p.ask("userfaultfd", 0)
	}
	if err := unix.Kill(p.pid, unix.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.pid, &ws, unix.WUNTRACED, nil); err != nil || !ws.Stopped() {
		p.t.Fatal(ws, err)
	}
}

// resume lets it go on.
func (p *dirtyProgram) resume() {
	if err := unix.Kill(p.pid, unix.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
	if p.uffd >= 0 {
		p.ask("close", p.uffd)
		p.uffd = -1
	}
}
