package trace

import (
	"slices"
	"syscall"
	"testing"

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

// TestUnprivileged runs these tests once more as an ordinary user.
func TestUnprivileged(t *testing.T) {
	out := nativetest.Unprivileged(t, "^Test(Inject|StopsAll)$", "victim")
	if n := nativetest.Passed(out); n != 2 {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}
