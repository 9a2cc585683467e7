package job

import (
	"runtime"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"golang.org/x/sys/unix"
)

// Ranks may begin on the same CPU although each could have one of its own. They are not bound to CPUs for that.
// A rank that finds that it shares its CPU moves to the CPU of its number. From there it may go wherever the
// system wants it.

// moveTo moves the calling thread to a CPU: the one with that number among those it may use. The
// thread stays free to go on to any of these. If the system refuses, the thread stays.
func moveTo(place int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if may, ok := mayUse(); ok {
		there := only(&may, place%may.Count())
		visit(&there, &may)
	}
}

// mayUse returns the CPUs that the calling thread may use, if there are several.
func mayUse() (may unix.CPUSet, ok bool) {
	err := unix.SchedGetaffinity(0, &may)
	return may, err == nil && may.Count() > 1
}

// visit moves the calling thread to a CPU.
func visit(there, may *unix.CPUSet) {
	if unix.SchedSetaffinity(0, there) == nil {
		_ = unix.SchedSetaffinity(0, may)
	}
}

// seat is a backoff.Seat. Neighbouring ranks have the same. It is chosen among all ranks of the
// machine: otherwise ranks of two nodes that are agents of one machine would meet on the same CPU.
type seat struct {
	rank     int
	machines []int // by rank; places tells which of the machine's ranks each is
	places   []int
	ranks    int         // of this rank's machine
	cpu      unix.CPUSet // what it was the last time
	was      int         // where the thread was before
}

func newSeat(start *oob.StartConfig) *seat {
	h := new(seat)
	h.settle(start)
	return h
}

// settle finds the seat again: ranks have moved, this one or others. It is called with the engine's lock held, or
// by the closer of the gate, as the other methods are.
func (h *seat) settle(start *oob.StartConfig) {
	*h = seat{rank: start.Rank, machines: machinesOf(start), was: h.was}
	of := map[int]int{}
	for _, m := range h.machines {
		h.places = append(h.places, of[m])
		of[m]++
	}
	h.ranks = of[h.machines[h.rank]]
}

// place is the index of this rank among those of its machine.
func (h *seat) place() int { return h.places[h.rank] }

// among returns which of so many CPUs belongs to a rank of the same machine.
func (h *seat) among(cpus, rank int) int { return h.places[rank] * cpus / h.ranks }

func (h *seat) Go() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, ok := cpu()
	if !ok || h.cpu.IsSet(was) {
		return false
	}
	may, ok := mayUse()
	if !ok {
		return false
	}
	if h.cpu = only(&may, h.among(may.Count(), h.rank)); h.cpu.IsSet(was) {
		return false
	}
	h.was = was
	visit(&h.cpu, &may)
	return true
}

func (h *seat) Back() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var there unix.CPUSet
	there.Set(h.was)
	if may, ok := mayUse(); ok {
		visit(&there, &may)
	}
}

func (h *seat) SharedWith(rank int) bool {
	may, ok := mayUse()
	return !ok || h.machines[rank] == h.machines[h.rank] && h.among(may.Count(), rank) == h.among(may.Count(), h.rank)
}

// cpu returns where the calling thread runs.
func cpu() (int, bool) {
	var n uint32
	_, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&n)), 0, 0)
	return int(n), errno == 0
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
