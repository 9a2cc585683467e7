package job

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// shortSlice is the shortest time slice that Linux gives. A thread that asks for a shorter slice
// than others gets the same share of the CPU, but sooner: when it is woken, it runs at once instead
// of after the others' slice, and a yield gives away only such a slice. Linux supports this from
// 6.12 on, for any process.
const shortSlice = 100 * time.Microsecond

// hurry asks for short slices for all threads of this process. Those that begin later have them
// from the threads that begin them. A thread with a policy of its own keeps it. If the system
// refuses, or has no such slices, nothing changes.
func hurry() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil && !hurryThread(tid) {
			return
		}
	}
}

// hurryThread does so for one thread. It reports false if the system does not know of slices.
func hurryThread(tid int) bool {
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil { // it has ended
		return true
	}
	if attr.Policy != unix.SCHED_NORMAL || attr.Runtime <= uint64(shortSlice) {
		return attr.Policy != unix.SCHED_NORMAL || attr.Runtime != 0
	}
	attr.Runtime = uint64(shortSlice)
	return unix.SchedSetAttr(tid, attr, 0) == nil
}
