package job

import (
	"runtime"

	"github.com/gorun-mpi/gorun/internal/oob"
	"golang.org/x/sys/unix"
)

// Ranks that each have a CPU may begin on the same one all the same. They are not bound
// to CPUs for that: a rank that finds its CPU shared goes to the one of its number, and
// from there wherever the system wants it.

// placeOf returns which of the ranks of its node a rank is.
func placeOf(start *oob.StartConfig) (place int) {
	nodes := nodesOf(start)
	for _, n := range nodes[:start.Rank] {
		if n == nodes[start.Rank] {
			place++
		}
	}
	return place
}

// moveTo moves the calling thread to the CPU of that number among those that it may
// use, and leaves it free to go on to any of these. Where the system does not let it
// there is nothing lost.
func moveTo(place int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var may unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil || may.Count() < 2 {
		return
	}
	there := only(&may, place%may.Count())
	if unix.SchedSetaffinity(0, &there) == nil {
		_ = unix.SchedSetaffinity(0, &may)
	}
}

// only returns the set of the k-th of some CPUs.
func only(all *unix.CPUSet, k int) (one unix.CPUSet) {
	cpu := 0
	for ; !all.IsSet(cpu) || k > 0; cpu++ {
		if all.IsSet(cpu) {
			k--
		}
	}
	one.Set(cpu)
	return one
}
