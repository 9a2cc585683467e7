package cli

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// deaf are ranks that ignore all signals that can be ignored.
const deaf = `trap '' INT TERM HUP QUIT; echo up; while :; do sleep 1000 & wait; done`

// heeded makes jobs of this test heed signals that the parent of the test ignores, as nohup does: a handler is not inherited.
func heeded(t *testing.T) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT)
	t.Cleanup(func() { signal.Stop(c) })
}

// Whatever the ranks make of it, the second order to end ends the job, of whatever kind both are.
func TestSecondOrderIsFinal(t *testing.T) {
	heeded(t)
	for _, c := range []struct {
		orders [2]syscall.Signal
		code   int
	}{
		{[2]syscall.Signal{syscall.SIGTERM, syscall.SIGHUP}, 143}, {[2]syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT}, 129},
		{[2]syscall.Signal{syscall.SIGQUIT, syscall.SIGINT}, 131}, {[2]syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, 130},
	} {
		t.Run(fmt.Sprint(c.orders), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			p := h.start("-", "-np", "2", "-grace", "1h", "sh", "-c", deaf)
			p.out.wait(t, "up\n", 2)
			for _, sig := range c.orders {
				p.signal(sig)
			}
			// Two signals that are under way at once may arrive in either order.
			other := 128 + int(c.orders[1])
			if code := p.code(); code != c.code && code != other {
				t.Errorf("exit %d, want %d\n%s", code, c.code, p.err)
			}
			h.nothingLeft()
		})
	}
}

// One order is enough when time is over.
func TestOrderHasALimit(t *testing.T) {
	heeded(t)
	h := newHouse(t)
	p := h.start("-", "-np", "2", "-grace", "10ms", "sh", "-c", deaf)
	p.out.wait(t, "up\n", 2)
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 143 || !strings.Contains(p.err.String(), "ended by SIGTERM; the ranks did not end by themselves and were killed") {
		t.Errorf("exit %d\n%s", code, p.err)
	}
	h.nothingLeft()
}

// A checkpoint that somebody waits for is given up by the second signal that asks for it.
func TestSecondOrderDuringLastCheckpoint(t *testing.T) {
	heeded(t)
	h := newHouse(t)
	p, _ := h.countJob(limit, "-cr=self", "-ckpt-on-signal", "TERM", "-grace", "10ms")
	_, ranks := p.family()
	if err := syscall.Kill(ranks[0], syscall.SIGSTOP); err != nil { // it comes to no Point
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	p.err.wait(t, "SIGTERM: checkpoint and stop", 1)
	p.signal(syscall.SIGHUP) // another kind of signal does the same
	if code := p.code(); code != 129 || strings.Contains(p.err.String(), "the job goes on") {
		t.Errorf("exit %d\n%s", code, p.err)
	}
	h.nothingLeft()
}

// A terminal that is closed ends the job that was started in it.
func TestTerminalCloses(t *testing.T) {
	heeded(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	h := newHouse(t)
	cmd := exec.Command("/proc/self/exe", asGorun, "-np", "2", "-grace", "10ms", "sh", "-c", deaf)
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+h.run, "TMPDIR="+h.tmp, "GORUN_CKPT_DIR="+h.ckpt, markVar+"="+h.mark)
	out := newStream()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.wait(t, "up\n", 2)
	slave.Close()
	master.Close()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 129 {
		t.Errorf("exit %d\n%s", code, out)
	}
	h.nothingLeft()
}
