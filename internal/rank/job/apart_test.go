package job

import (
	"runtime"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"golang.org/x/sys/unix"
)

// Ranks next to each other share a seat, and each CPU is that of as many.
func TestHomeOf(t *testing.T) {
	agents := []oob.Node{{Number: 0, Ranks: 1, Machine: 1}, {Number: 1, Ranks: 1, Machine: 1}, {Number: 2, Ranks: 2, Machine: 2}}
	for rank, want := range []int{0, 1, 0, 1} {
		h := newSeat(&oob.StartConfig{Rank: rank, Size: 4, Nodes: agents})
		if got := h.among(2, rank); got != want {
			t.Errorf("of nodes on one machine rank %d has CPU %d, not %d", rank, got, want)
		}
	}
	nodes := []oob.Node{{Number: 3, Ranks: 2}, {Number: 1, Ranks: 2}, {Number: 3, Ranks: 2}}
	for rank, want := range []int{0, 0, 0, 1, 1, 1} {
		if got := newSeat(&oob.StartConfig{Rank: rank, Size: 6, Nodes: nodes}).among(2, rank); got != want {
			t.Errorf("rank %d has CPU %d, not %d", rank, got, want)
		}
		h := newSeat(&oob.StartConfig{Rank: rank, Size: 6})
		if got := h.among(3, rank); got != rank/2 {
			t.Errorf("on one node rank %d has CPU %d", rank, got)
		}
	}
}

func TestOnly(t *testing.T) {
	var all unix.CPUSet
	cpus := []int{0, 3, 64, 65, 200}
	for _, cpu := range cpus {
		all.Set(cpu)
	}
	for k, cpu := range cpus {
		if one := only(&all, k); one.Count() != 1 || !one.IsSet(cpu) {
			t.Errorf("number %d is not CPU %d", k, cpu)
		}
	}
}

// The thread gets to the CPU of its number, and may use all others afterwards.
func TestMoveTo(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for place := range 2 * before.Count() {
		want := only(&before, place%before.Count())
		for moveTo(place); !want.IsSet(cpuNow(t)); moveTo(place) {
			// the system has moved it on already
		}
		if unix.SchedGetaffinity(0, &after); after != before {
			t.Fatal("it may not use all CPUs any more")
		}
	}
}

// A thread that is not at its seat gets there, and back to where it was.
func TestHome(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	cpus := all.Count()
	if cpus < 2 {
		t.Skip("there is one CPU")
	}
	for rank := range 2 * cpus {
		it, other := only(&all, rank/2), rank/2+1
		h := newSeat(&oob.StartConfig{Rank: rank, Size: 2 * cpus})
		for moveTo(other); !h.Go(); moveTo(other) {
			// the system has moved it on already
		}
		was := h.was
		for h.Back(); cpuNow(t) != was; h.Back() {
		}
		for !it.IsSet(cpuNow(t)) {
			h.Go()
		}
		if unix.SchedGetaffinity(0, &after); after != all {
			t.Fatal("it may not use all CPUs any more")
		}
		if !h.SharedWith(rank^1) || h.SharedWith((rank+2)%(2*cpus)) {
			t.Errorf("rank %d of %d on %d CPUs: shared with %d: %v, %d: %v", rank, 2*cpus, cpus, rank^1, h.SharedWith(rank^1), rank+2, h.SharedWith(rank+2))
		}
	}
}

func cpuNow(t *testing.T) int {
	at, ok := cpu()
	if !ok {
		t.Fatal("the system does not tell which CPU this is")
	}
	return at
}
