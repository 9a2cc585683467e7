package trace

import (
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// TestStopsAll: a thread that is missing in the kernel's list, as where others end while
// it is made, is stopped nevertheless.
func TestStopsAll(t *testing.T) {
	threads := NewThreads(1)
	defer threads.Close()
	v := nativetest.StartVictim(t, threads.Do, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, "threads")
	p, err := OpenProcess(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	lists := 0
	listThreads = func(pid int) ([]int, error) {
		all, err := proc.Threads(pid)
		slices.Sort(all)
		if lists++; lists <= 2 && len(all) > 1 {
			all = all[:len(all)-1] // passed over twice
		}
		return all, err
	}
	defer func() { listThreads = proc.Threads }()
	stood, there := 0, 0
	th := threads.Pick()
	th.Do(func() {
		st := Standstill{Process: &p, Thread: th}
		if err = st.StopAll(); err != nil {
			return
		}
		stood = len(st.TIDs)
		there, err = proc.CountThreads(v.PID)
		st.Release()
	})
	if err != nil || lists < 3 || stood < 20 || stood != there {
		t.Errorf("%d of %d threads stood, after %d lists, %v", stood, there, lists, err)
	}
	v.Works()
}

// TestKilledWhileItStands: a child of another process that is killed while it stands is seen to end by its parent, once it was let go.
func TestKilledWhileItStands(t *testing.T) {
	threads := NewThreads(1)
	defer threads.Close()
	parent := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	parent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := parent.StdoutPipe()
	if err == nil {
		threads.Do(func() { err = parent.Start() })
	}
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Process.Kill()
	child := 0
	if _, err := fmt.Fscan(out, &child); err != nil {
		t.Fatal(err)
	}
	p, err := OpenProcess(child)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	th := threads.Pick()
	th.Do(func() {
		st := Standstill{Process: &p, Thread: th}
		if err = st.StopAll(); err != nil {
			return
		}
		syscall.Kill(child, syscall.SIGKILL)
		for b := (Backoff{}); !p.Ended() && b.Sleep(10*time.Second); {
		}
		st.Release()
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err != nil { // its wait is over
		t.Error(err)
	}
}

// TestUnprivileged runs these tests once more as an ordinary user.
func TestUnprivileged(t *testing.T) {
	out := nativetest.Unprivileged(t, "^Test(Inject|StopsAll)$", "victim")
	if n := nativetest.Passed(out); n != 2 {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}
