package capture

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// What threads of C have beyond those of Go: restartable sequences, robust locks, an
// address that the kernel clears at their end, policies of the scheduler.

// lookForProgram finds out which run-times are in the executable that the process runs
// by now.
func (g *Target) lookForProgram() error {
	g.exe = exeOf(g.PID)
	p, err := runtimes.ReadProgram(fmt.Sprintf("/proc/%d/exe", g.PID))
	if err != nil {
		return fmt.Errorf("the executable: %w", err)
	}
	if p != g.program {
		g.program, g.runtimes = p, runtimes.Of(p)
		g.tidy, g.calls = map[tcb]uint64{}, map[int]interrupted{}
	}
	return nil
}

// exeOf names the executable of a process.
func exeOf(pid int) fileID {
	var st unix.Stat_t
	unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &st) // of one that has ended it is none
	return fileID{st.Dev, st.Ino}
}

// tcb is a thread in its memory: what it has told the kernel of itself does not change.
type tcb struct {
	tid int
	fs  uint64
}

// recordC records the state that can be seen from outside, and ends a restartable
// sequence of the thread.
func (r *recorder) recordC(t *state.Thread, tid int) error {
	conf := trace.RseqOf(tid)
	if conf.Area != 0 {
		t.Rseq = &state.Rseq{Area: conf.Area, Size: conf.Size, Sig: conf.Signature}
	}
	if err := conf.AbortRseq(r.mem, tid); err != nil {
		return fmt.Errorf("restartable sequence: %w", err)
	}
	_, _, e := unix.RawSyscall(unix.SYS_GET_ROBUST_LIST, uintptr(tid), uintptr(unsafe.Pointer(&t.Robust[0])), uintptr(unsafe.Pointer(&t.Robust[1])))
	if e != 0 {
		return fmt.Errorf("list of robust locks: %w", e)
	}
	if t.Robust[0] == 0 {
		t.Robust[1] = 0
	}
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return fmt.Errorf("scheduling: %w", err)
	}
	if attr.Policy != 0 {
		t.Policy = &state.Policy{Policy: attr.Policy, Flags: attr.Flags, Priority: attr.Priority,
			Runtime: attr.Runtime, Deadline: attr.Deadline, Period: attr.Period}
	}
	return nil
}

// questionsC asks for what only the thread itself is told.
func (st *stand) questionsC(r *recorder) []question {
	threads := r.state.Threads
	known := func(i int) tcb {
		regs, _ := trace.RegsOf(threads[i].Regs)
		return tcb{threads[i].TID, regs.Fs_base}
	}
	slack := make([]uint64, len(threads))
	for i := range threads {
		slack[i] = slackOf(st.TIDs[i])
	}
	noteSlack := func(i int, ns uint64) error {
		if ns != state.UsualSlack {
			threads[i].Slack = ns
		}
		return nil
	}
	return []question{{
		nr:   unix.SYS_PRCTL,
		args: func(s *trace.Scratch) []uint64 { return []uint64{unix.PR_GET_TID_ADDRESS, s.Addr} },
		skip: func(i int) bool {
			var ok bool
			threads[i].Tidy, ok = st.g.tidy[known(i)]
			return ok
		},
		note: func(i int, _ uint64, _ *trace.Injector, s *trace.Scratch) error {
			var p [8]byte
			err := s.Read(p[:])
			threads[i].Tidy = le.Uint64(p[:])
			st.g.tidy[known(i)] = threads[i].Tidy
			return err
		},
	}, {
		nr:   unix.SYS_PRCTL,
		args: func(*trace.Scratch) []uint64 { return []uint64{unix.PR_GET_TIMERSLACK} },
		skip: func(i int) bool { return slack[i] != 0 && noteSlack(i, slack[i]) == nil },
		note: func(i int, ns uint64, _ *trace.Injector, _ *trace.Scratch) error { return noteSlack(i, ns) },
	}}
}

// slackOf gives the slack of a thread's timers, 0 if the kernel does not tell us.
func slackOf(tid int) uint64 {
	p, err := proc.Read(tid, "timerslack_ns")
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(p)), 10, 64)
	return n
}

// interrupted is a call that goes on when the thread does.
type interrupted struct {
	rip uint64
	nr  int64
}

// callOf gives the number of the call whose remainder only the kernel knows, -1 if there
// is none or it is not known. One that went on once already has another number since:
// then the code tells, or we still know.
func (g *Target) callOf(m *trace.Memory, tid int, r *trace.Regs) int64 {
	if !trace.InRestartBlock(r) {
		delete(g.calls, tid)
		return -1
	}
	nr := int64(r.Orig_rax)
	if nr == unix.SYS_RESTART_SYSCALL {
		nr = numberInCode(m, r.Rip)
		if before := g.calls[tid]; nr < 0 && before.rip == r.Rip {
			nr = before.nr
		}
	}
	if nr >= 0 {
		g.calls[tid] = interrupted{r.Rip, nr}
	}
	return nr
}

// numberInCode reads the number of a call from the code before it: mov eax, number;
// syscall. -1 if it looks otherwise.
func numberInCode(m *trace.Memory, rip uint64) int64 {
	const mov = 0xb8
	var p [7]byte
	if m.Peek(p[:], rip-uint64(len(p))) != nil || p[0] != mov || [2]byte(p[5:]) != [2]byte(trace.SyscallInsn) {
		return -1
	}
	return int64(le.Uint32(p[1:]))
}
