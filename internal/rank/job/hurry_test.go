package job

import (
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// All threads have short slices, and otherwise what they had.
func TestHurry(t *testing.T) {
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if before.Runtime == 0 || before.Policy != unix.SCHED_NORMAL {
		t.Skipf("the system gives this thread no slice that can be told: %+v", before)
	}
	hurry()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		attr, err := unix.SchedGetAttr(tid, 0)
		if err != nil { // it has ended
			continue
		}
		if got := time.Duration(attr.Runtime); got != shortSlice || attr.Policy != unix.SCHED_NORMAL || attr.Nice != before.Nice {
			t.Errorf("thread %d: slice %v, policy %d, nice %d", tid, got, attr.Policy, attr.Nice)
		}
	}
}
