package capture

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/goruntime"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// stepLimit is how many instructions a thread may take to get to where it can be
// imaged.
const stepLimit = 2000

// advance lets a thread, alone, go on to where it can go on from elsewhere: out of
// the vdso, since another machine's kernel has other instructions there, and, in
// a newborn thread, to where the runtime has entered its number, by which a
// restore finds it.
func (r *recorder) advance(tid int) error {
	own, err := trace.GetRegs(tid)
	if err != nil || r.ready(tid, &own) {
		return err
	}
	mask, err := trace.GetMask(tid)
	if err != nil {
		return err
	}
	if err := trace.SetMask(tid, trace.AllSignals); err != nil {
		return err
	}
	for n := 0; err == nil && !r.ready(tid, &own); n++ {
		if n == stepLimit {
			err = trace.ErrMidway
			break
		}
		own, err = trace.Step(tid)
	}
	if e := trace.SetMask(tid, mask); err == nil {
		err = e
	}
	return err
}

// ready tells whether a thread stands where it can be imaged.
func (r *recorder) ready(tid int, own *trace.Regs) bool {
	return !r.vdso.Has(own.Rip) && settled(r.mem, tid, own.Fs_base)
}

// settled tells whether the runtime knows the thread by its number: g, m and
// m.procid are in place. Until a new thread has set its own fs_base, it has that
// of the thread that made it.
func settled(m *trace.Memory, tid int, fs uint64) bool {
	g, err := m.Word(fs - goruntime.TlsG)
	if err != nil || g == 0 {
		return false
	}
	mach, err := m.Word(g + goruntime.GM)
	if err != nil || mach == 0 {
		return false
	}
	var p [goruntime.MStart]byte
	if m.Peek(p[:], mach) != nil {
		return false
	}
	found := 0
	for i := 0; i < len(p); i += 8 {
		if le.Uint64(p[i:]) == uint64(tid) {
			found++
		}
	}
	return found == 1
}

// recordThreads notes what is needed to make the threads anew. The leader's
// entry comes first.
func (st *stand) recordThreads(r *recorder) error {
	for _, tid := range st.TIDs {
		if err := r.advance(tid); err != nil {
			return fmt.Errorf("thread %d: %w", tid, err)
		}
	}
	for _, tid := range st.TIDs {
		t, err := st.recordThread(tid)
		if err != nil {
			return fmt.Errorf("thread %d: %w", tid, err)
		}
		r.state.Threads = append(r.state.Threads, t)
	}
	if err := st.noteProcessors(r); err != nil {
		return err
	}
	return st.askThreads(r)
}

// recordThread notes what the kernel tells of a thread.
func (st *stand) recordThread(tid int) (state.Thread, error) {
	t := state.Thread{TID: tid}
	var err error
	if t.XState, err = trace.GetXState(tid); err != nil {
		return t, fmt.Errorf("vector registers: %w", err)
	}
	if t.Pending, err = trace.Pending(tid, false); err != nil {
		return t, fmt.Errorf("pending signals: %w", err)
	}
	if t.Nice, err = proc.Nice(tid); err != nil {
		return t, fmt.Errorf("priority: %w", err)
	}
	if comm, err := os.ReadFile(st.g.Task(tid) + "/comm"); err == nil {
		t.Comm = string(bytes.TrimSuffix(comm, []byte{'\n'}))
	}
	return t, nil
}

// askThreads lets all threads ask the kernel for their signal stacks, at the same
// time: what takes long is to wake them up. Each borrows memory of its own.
func (st *stand) askThreads(r *recorder) error {
	asked := make([]*trace.Injector, 0, len(st.TIDs))
	borrowed := make([]*trace.Scratch, 0, len(st.TIDs))
	var failed error
	fail := func(err error) bool {
		if err != nil && failed == nil {
			failed = err
		}
		return err != nil
	}
	for _, tid := range st.TIDs {
		in, err := trace.Begin(tid, r.text)
		if fail(err) {
			break
		}
		asked = append(asked, in)
		s, err := trace.Borrow(r.mem, in.Own.Fs_base)
		if fail(err) {
			break
		}
		borrowed = append(borrowed, s)
		if fail(in.Start(unix.SYS_SIGALTSTACK, 0, s.Addr)) {
			borrowed = borrowed[:len(borrowed)-1]
			break
		}
	}
	// Whoever was sent off is brought back, whatever happens to others.
	for i := range borrowed {
		fail(asked[i].Enter())
	}
	for i, s := range borrowed {
		_, err := asked[i].Finish()
		if fail(err) {
			continue
		}
		fail(r.noteThread(&r.state.Threads[i], asked[i], s))
	}
	for _, s := range borrowed {
		fail(s.GiveBack())
	}
	for _, in := range asked {
		fail(in.End())
	}
	return failed
}

// noteThread completes a thread's entry.
func (r *recorder) noteThread(t *state.Thread, in *trace.Injector, s *trace.Scratch) error {
	var p [24]byte
	if err := s.Read(p[:]); err != nil {
		return err
	}
	own := trace.Mend(in.Own, false)
	t.Regs, t.Mask = trace.RegBytes(&own), in.Mask
	t.AltStack = [3]uint64{le.Uint64(p[:]), uint64(le.Uint32(p[8:])), le.Uint64(p[16:])}
	return r.handlerOutside(t, own.Rsp)
}

// handlerOutside checks that a thread that runs a signal handler was not
// interrupted in the vdso: it would return there. What the handler was called
// with lies on its signal stack.
func (r *recorder) handlerOutside(t *state.Thread, sp uint64) error {
	lo, size := t.AltStack[0], t.AltStack[2]
	if sp < lo || sp >= lo+size || r.vdso.Start == 0 {
		return nil
	}
	p := make([]byte, lo+size-sp)
	if err := r.mem.Peek(p, sp); err != nil {
		return fmt.Errorf("signal stack: %w", err)
	}
	for i := 0; i+8 <= len(p); i += 8 {
		if r.vdso.Has(le.Uint64(p[i:])) {
			if r.patient {
				return fmt.Errorf("%w: thread %d handles a signal that came in the vdso", trace.ErrBusy, t.TID)
			}
			r.state.VDSO.Busy = true
		}
	}
	return nil
}

// now reads a clock of this machine, in nanoseconds.
func now(clock int32) int64 {
	var t unix.Timespec
	unix.ClockGettime(clock, &t)
	return t.Nano()
}
