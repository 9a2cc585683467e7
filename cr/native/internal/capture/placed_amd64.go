package capture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// What a process and its threads may have asked of the scheduler and of the kernel's
// other parts, and a copy of it does not have, or cannot tell.

// processors gives the mask of those that a thread may run on; 0 is the caller.
func processors(tid int) ([]byte, error) {
	var mask [state.MaxProcessors / 8]byte
	n, _, e := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(tid), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
	if e != 0 {
		return nil, e
	}
	return bytes.TrimRight(mask[:n], "\x00"), nil
}

// noteProcessors records where each thread may run, except threads that run where the
// agent has put the process, or where all its children run: on another machine, or under
// another batch job, these are others.
func (st *stand) noteProcessors(r *recorder) error {
	here := r.given
	if here == nil {
		var err error
		if here, err = processors(0); err != nil {
			return fmt.Errorf("processors: %w", err)
		}
	}
	for i, tid := range st.TIDs {
		mask, err := processors(tid)
		if err != nil {
			return fmt.Errorf("processors of thread %d: %w", tid, err)
		}
		if !bytes.Equal(mask, here) {
			r.state.Threads[i].CPUs = mask
		}
	}
	return nil
}

// oomAdj reads how readily the kernel ends a process when memory runs short.
func oomAdj(pid int) (int, error) { return proc.Parsed(pid, "oom_score_adj", proc.ParseNumber) }

// lookForOOMAdj notes the process's, if it is not that of the agent, which it was born
// with. It is asked before the process is stopped: programs set it when they start.
func (g *Target) lookForOOMAdj() error {
	here, err := oomAdj(os.Getpid())
	if err != nil {
		return err
	}
	n, err := oomAdj(g.PID)
	if g.oomAdj = nil; err == nil && n != here {
		g.oomAdj = &n
	}
	return err
}

// askSubreaper asks whether orphans become children of the process. No copy tells.
func (r *recorder) askSubreaper(in *trace.Injector, s *trace.Scratch) error {
	if _, err := in.Call(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, s.Addr); err != nil {
		return fmt.Errorf("PR_GET_CHILD_SUBREAPER: %w", err)
	}
	var p [4]byte
	if err := s.Read(p[:]); err != nil {
		return err
	}
	r.state.Subreaper = le.Uint32(p[:]) != 0
	return nil
}

// membarrierAsk is MEMBARRIER_CMD_GET_REGISTRATIONS.
const membarrierAsk = 1 << 9

// membarriers asks what the process has registered for. Before Linux 6.3 only the use
// of each tells, and for the global one nothing does: it is taken to be there, as it
// only makes the process reachable.
func membarriers(in *trace.Injector) (uint64, error) {
	all, err := in.Call(unix.SYS_MEMBARRIER, membarrierAsk)
	switch {
	case err == nil:
		return all & state.MembarrierAll, nil
	case errors.Is(err, unix.ENOSYS):
		return 0, nil
	case !errors.Is(err, unix.EINVAL):
		return 0, fmt.Errorf("membarrier: %w", err)
	}
	all = state.MembarrierGlobal
	for _, c := range []uint64{state.MembarrierPrivate, state.MembarrierCore, state.MembarrierRseq} {
		switch _, err := in.Call(unix.SYS_MEMBARRIER, c>>1); {
		case err == nil:
			all |= c
		case errors.Is(err, whole.ErrDied):
			return 0, err
		}
	}
	return all, nil
}
