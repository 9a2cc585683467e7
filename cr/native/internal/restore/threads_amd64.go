//go:build linux

package restore

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

const cloneFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD |
	unix.CLONE_SYSVSEM | unix.CLONE_PTRACE

// processCalls restores what belongs to the process as a whole.
func (r *restore) processCalls() []call {
	s := r.state
	calls := []call{
		{what: "umask", nr: unix.SYS_UMASK, args: [6]uint64{uint64(s.Umask)}},
		nameCall(s.Comm),
		r.layoutCall(),
	}
	if s.NoNewPrivs { // before there are other threads, which inherit it
		calls = append(calls, call{what: "no_new_privs", nr: unix.SYS_PRCTL, args: [6]uint64{unix.PR_SET_NO_NEW_PRIVS, 1}})
	}
	if s.Subreaper {
		calls = append(calls, call{what: "child subreaper", nr: unix.SYS_PRCTL, args: [6]uint64{unix.PR_SET_CHILD_SUBREAPER, 1}})
	}
	if s.NoTHP {
		calls = append(calls, call{what: "PR_SET_THP_DISABLE", nr: unix.SYS_PRCTL, args: [6]uint64{unix.PR_SET_THP_DISABLE, 1}})
	}
	calls = append(append(calls, r.bornCalls()...), membarrierCalls(s)...)
	for i, a := range s.Actions {
		sig := unix.Signal(i + 1)
		if sig == unix.SIGKILL || sig == unix.SIGSTOP {
			continue
		}
		var p []byte
		for _, w := range []uint64{a.Handler, a.Flags, a.Restorer, a.Mask} {
			p = le.AppendUint64(p, w)
		}
		calls = append(calls, call{what: "action of signal " + sig.String(), nr: unix.SYS_RT_SIGACTION,
			args: [6]uint64{uint64(sig), 0, 0, 8}, data: p, at: 1})
	}
	return calls
}

func nameCall(name string) call {
	return call{what: "name", nr: unix.SYS_PRCTL, args: [6]uint64{unix.PR_SET_NAME}, data: append([]byte(name), 0), at: 1}
}

// layoutCall tells the kernel where arguments, environment and heap are, which
// /proc shows and brk needs.
func (r *restore) layoutCall() call {
	const auxvAt, vectorAt = 11 * 8, 13 * 8
	m := r.state.MM
	var p []byte
	for _, w := range []uint64{
		m.StartCode, m.EndCode, m.StartData, m.EndData, m.StartBrk, m.Brk, m.StartStack,
		m.ArgStart, m.ArgEnd, m.EnvStart, m.EnvEnd, 0,
	} {
		p = le.AppendUint64(p, w)
	}
	auxv := r.auxv()
	p = le.AppendUint32(p, uint32(len(auxv)))
	p = le.AppendUint32(p, ^uint32(0)) // the executable stays
	size := uint64(len(p))
	p = append(p, auxv...)
	return call{what: "layout of the process", nr: unix.SYS_PRCTL, args: [6]uint64{prSetMM, prSetMMMap, 0, size}, data: p, at: 2,
		fix: func(data []byte, addr uint64) {
			if len(auxv) > 0 {
				le.PutUint64(data[auxvAt:], addr+vectorAt)
			}
		}}
}

// auxv is the auxiliary vector up to its end, with the place where the vdso now is.
func (r *restore) auxv() []byte {
	const atNull, atSysinfoEHDR = 0, 33
	var out []byte
	for p := r.state.Auxv; len(p) >= 16; p = p[16:] {
		key, value := le.Uint64(p), le.Uint64(p[8:])
		if key == atSysinfoEHDR {
			value = r.layout.vdso
		}
		out = le.AppendUint64(le.AppendUint64(out, key), value)
		if key == atNull {
			break
		}
	}
	return out
}

// fileCalls does to descriptors what has to be done in the process itself.
func (r *restore) fileCalls() []call {
	calls := []call{r.closeCall()}
	for i := range r.state.Files {
		if f := &r.state.Files[i]; f.Flags&unix.O_CLOEXEC != 0 {
			calls = append(calls, call{what: fmt.Sprintf("descriptor %d", f.FD), nr: unix.SYS_FCNTL,
				args: [6]uint64{uint64(f.FD), unix.F_SETFD, unix.FD_CLOEXEC}})
		}
	}
	return append(calls, r.watchCalls()...)
}

// closeCall closes the mapped files, and descriptors that this process has
// passed on by mistake.
func (r *restore) closeCall() call {
	return call{what: "closing", nr: unix.SYS_CLOSE_RANGE, args: [6]uint64{uint64(r.base), 1<<32 - 1}}
}

// cloneCalls starts the other threads; each stops before its first instruction.
func (r *restore) cloneCalls() []call {
	r.tids = append(r.tids[:0], r.pid)
	var calls []call
	for range r.state.Threads[1:] {
		calls = append(calls, call{what: "starting a thread", nr: unix.SYS_CLONE, args: [6]uint64{cloneFlags},
			done: func(tid uint64) { r.tids = append(r.tids, int(tid)) }})
	}
	return calls
}

// awaken brings the new threads under our hand, restores what each of them must
// do for itself, and puts their new ids into the runtime's memory.
func (r *restore) awaken() error {
	if r.place != nil {
		if err := r.findThreads(); err != nil {
			return fmt.Errorf("finding the threads: %w", err)
		}
		if err := r.puppet.mem.Poke(trace.NoCapabilities, r.puppet.scratch+areaSize-areaLast); err != nil {
			return err
		}
	}
	for _, tid := range r.tids[1:] {
		if err := awaitSelfStop(tid); err != nil {
			return fmt.Errorf("starting a thread: %w", err)
		}
	}
	for i, tid := range r.tids {
		if err := r.puppet.run(tid, r.threadCalls(i)); err != nil {
			return fmt.Errorf("thread %d: %w", tid, err)
		}
	}
	if err := r.withoutRseq(); err != nil {
		return err
	}
	return r.mendIDs()
}

func (r *restore) threadCalls(i int) []call {
	t := &r.state.Threads[i]
	const onStack = 1 // tells, does not set
	var p []byte
	for _, w := range []uint64{t.AltStack[0], t.AltStack[1] &^ onStack, t.AltStack[2]} {
		p = le.AppendUint64(p, w)
	}
	calls := []call{{what: "signal stack", nr: unix.SYS_SIGALTSTACK, data: p}}
	calls = append(calls, r.callsC(t)...)
	if p := r.state.Personality; p != 0 { // after all memory has its protection, which this may change
		calls = append(calls, call{what: "personality", nr: unix.SYS_PERSONALITY, args: [6]uint64{p}})
	}
	if t.Comm != "" && t.Comm != r.state.Comm {
		calls = append(calls, nameCall(t.Comm))
	}
	pid := uint64(r.puppet.idOf(r.pid))
	// A thread may send itself any signal as if the kernel had sent it.
	for _, info := range t.Pending {
		calls = append(calls, call{what: "pending signal", nr: unix.SYS_RT_TGSIGQUEUEINFO,
			args: [6]uint64{pid, uint64(r.puppet.idOf(r.tids[i])), uint64(state.SignalOf(info))}, data: renumber(info, r.state.PID, int(pid)), at: 3, may: true})
	}
	if i == 0 {
		for _, info := range r.state.Shared {
			calls = append(calls, call{what: "pending signal", nr: unix.SYS_RT_SIGQUEUEINFO,
				args: [6]uint64{pid, uint64(state.SignalOf(info))}, data: renumber(info, r.state.PID, int(pid)), at: 2, may: true})
		}
	}
	return append(calls, r.dropCall()...)
}

// setThreads gives every thread its registers and signal mask.
func (r *restore) setThreads() error {
	here, err := trace.GetXState(r.pid)
	if err != nil {
		return err
	}
	for i, tid := range r.tids {
		t := &r.state.Threads[i]
		x, err := fitXState(t.XState, here)
		if err != nil {
			return err
		}
		if err := trace.SetXState(tid, x); err != nil {
			return fmt.Errorf("vector registers of thread %d: %w", t.TID, err)
		}
		g, err := trace.RegsOf(t.Regs)
		if err != nil {
			return err
		}
		g.Orig_rax = ^uint64(0) // no system call is repeated on its account
		if err := trace.SetRegs(tid, &g); err != nil {
			return fmt.Errorf("registers of thread %d: %w", t.TID, err)
		}
		if err := trace.SetMask(tid, t.Mask); err != nil {
			return fmt.Errorf("signal mask of thread %d: %w", t.TID, err)
		}
	}
	return nil
}
