package capture

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestEndingThreads: threads that are just ending stand against nothing.
func TestEndingThreads(t *testing.T) {
	v := newVictim(t, testAgent(t), "births", "births", "births")
	for i := range 3000 {
		if err := v.target.checkIdentity(); err != nil {
			t.Fatalf("look %d: %v", i, err)
		}
	}
	v.Works()
}

// TestEndingChildren: processes of the family that are just ending stand against nothing, nor do their own children.
func TestEndingChildren(t *testing.T) {
	tr := testAgent(t)
	c := exec.Command("sh", "-c", "while :; do (/bin/true; :) | (/bin/true; :); done")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	var err error
	if tr.threads.Do(func() { err = c.Start() }); err != nil {
		t.Fatal(err)
	}
	defer func() {
		unix.Kill(-c.Process.Pid, unix.SIGKILL)
		c.Wait()
	}()
	g, err := attachTo(tr, c.Process.Pid, 7, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.check(); errors.Is(err, refusal.ErrRefused) {
		t.Skip(err) // no user namespaces
	}
	for i := range 1000 {
		if err := g.check(); err != nil {
			t.Fatalf("look %d: %v", i, err)
		}
	}
	for i := range 20 {
		c, err := g.capture(whole.CaptureOptions{})
		if err != nil {
			t.Fatalf("capture %d: %v", i, err)
		}
		if err := c.Release(); err != nil {
			t.Error(err)
		}
	}
}

// TestHeadless: a process whose first thread has ended lives, and cannot be imaged.
func TestHeadless(t *testing.T) {
	v := newVictim(t, testAgent(t), "headless")
	for b := (trace.Backoff{}); !trace.IsZombie(v.PID); {
		if !b.Sleep(10 * time.Second) {
			t.Fatal("its first thread lives")
		}
	}
	for range 2 {
		if _, err := v.target.capture(whole.CaptureOptions{}); !errors.Is(err, refusal.ErrRefused) || !errors.Is(err, trace.ErrLeaderEnded) {
			t.Error(err)
		}
		v.Works()
	}
	unix.Kill(v.PID, unix.SIGKILL)
	if _, err := v.target.capture(whole.CaptureOptions{}); !errors.Is(err, whole.ErrDied) {
		t.Error(err)
	}
}
