package job

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/oob"
	"golang.org/x/sys/unix"
)

func TestPlaceOf(t *testing.T) {
	nodes := []oob.Node{{Number: 3, Ranks: 2}, {Number: 1, Ranks: 2}, {Number: 3, Ranks: 1}}
	for rank, want := range []int{0, 1, 0, 1, 2} {
		if got := placeOf(&oob.StartConfig{Rank: rank, Size: 5, Nodes: nodes}); got != want {
			t.Errorf("rank %d has place %d, not %d", rank, got, want)
		}
		if got := placeOf(&oob.StartConfig{Rank: rank, Size: 5}); got != rank {
			t.Errorf("on one node rank %d has place %d", rank, got)
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
		for moveTo(place); !want.IsSet(cpu()); moveTo(place) {
			// the system has moved it on already
		}
		if unix.SchedGetaffinity(0, &after); after != before {
			t.Fatal("it may not use all CPUs any more")
		}
	}
}

// cpu returns where the calling thread runs.
func cpu() int {
	var n uint32
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&n)), 0, 0)
	return int(n)
}
