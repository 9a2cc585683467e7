package restore

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// bind binds threads to the processors they were bound to, as far as there are any.
func (r *restore) bind() error {
	var free []string
	for i, tid := range r.tids {
		mask := r.state.Threads[i].CPUs
		if len(mask) == 0 {
			continue
		}
		_, _, e := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, uintptr(tid), uintptr(len(mask)), uintptr(unsafe.Pointer(&mask[0])))
		switch e {
		case 0:
		case unix.EINVAL:
			free = append(free, strconv.Itoa(tid))
		default:
			return fmt.Errorf("processors of thread %d: %w", tid, e)
		}
	}
	if len(free) > 0 {
		r.note("the processors that threads were bound to are not here: they may use all (threads %s)", strings.Join(free, ", "))
	}
	return nil
}

// note tells the user which state has changed.
func (r *restore) note(text string, args ...any) {
	r.files.notes = append(r.files.notes, fmt.Sprintf(text, args...))
}

// setOOMAdj gives the process its own again; less than the agent's needs privilege.
func (r *restore) setOOMAdj() error {
	want := r.state.OOMAdj
	if want == nil {
		return nil
	}
	err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", r.pid), strconv.AppendInt(nil, int64(*want), 10), 0)
	if errors.Is(err, os.ErrPermission) {
		r.note("oom_score_adj is not %d as it was: %v (privilege may lower it)", *want, err)
		return nil
	}
	return err
}

// membarrierCalls registers again.
func membarrierCalls(s *state.State) []call {
	var calls []call
	for c := uint64(1); c <= state.MembarrierAll; c <<= 1 {
		if s.Membarrier&c != 0 {
			calls = append(calls, call{what: fmt.Sprintf("registering for membarrier %#x", c), nr: unix.SYS_MEMBARRIER, args: [6]uint64{c}})
		}
	}
	return calls
}
