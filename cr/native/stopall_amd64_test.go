package native

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// TestStopsAll: a thread that is missing in the kernel's list, as where others end while
// it is made, is stopped nevertheless.
func TestStopsAll(t *testing.T) {
	v := newVictim(t, testTracer(t), "threads")
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
	s, _ := v.capture(whole.CaptureOptions{NoFork: true})
	listThreads = proc.Threads
	v.works()
	if tids, err := proc.Threads(v.pid); err != nil || lists < 3 || len(s.Threads) < 20 {
		t.Errorf("%d of %d threads are in the image, after %d lists, %v", len(s.Threads), len(tids), lists, err)
	}
}

// TestEndingThreads: threads that are just ending stand against nothing.
func TestEndingThreads(t *testing.T) {
	v := newVictim(t, testTracer(t), "births", "births", "births")
	for i := range 3000 {
		if err := v.target.checkIdentity(); err != nil {
			t.Fatalf("look %d: %v", i, err)
		}
	}
	v.works()
}

// TestHeadless: a process whose first thread has ended lives, and cannot be imaged.
func TestHeadless(t *testing.T) {
	v := newVictim(t, testTracer(t), "headless")
	for b := (backoff{}); !isZombie(v.pid); {
		if !b.sleep(10 * time.Second) {
			t.Fatal("its first thread lives")
		}
	}
	for range 2 {
		if _, err := v.target.capture(whole.CaptureOptions{}); !errors.Is(err, ErrRefused) || !errors.Is(err, errLeaderEnded) {
			t.Error(err)
		}
		v.works()
	}
	unix.Kill(v.pid, unix.SIGKILL)
	if _, err := v.target.capture(whole.CaptureOptions{}); !errors.Is(err, whole.ErrDied) {
		t.Error(err)
	}
}
