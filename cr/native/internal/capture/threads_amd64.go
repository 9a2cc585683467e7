package capture

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
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

// ready tells whether a thread stands where it can be imaged. Of a thread of C's that is
// just becoming Go's the id is not waited for without end: it may wait for others itself.
func (r *recorder) ready(tid int, own *trace.Regs) bool {
	if r.vdso.Has(own.Rip) {
		return false
	}
	return r.runtimes.Settled(r.mem, runtimes.Thread{TID: r.g.idOf(tid), FS: own.Fs_base}) || r.runtimes.C != nil && !r.patient
}

// recordThreads records what is needed to make the threads again. The leader's
// entry comes first.
func (st *stand) recordThreads(r *recorder) error {
	for _, tid := range st.TIDs {
		if err := r.advance(tid); err != nil {
			return fmt.Errorf("thread %d: %w", tid, err)
		}
	}
	for _, tid := range st.TIDs {
		t, err := st.recordThread(tid)
		if err == nil && r.runtimes.C != nil {
			err = r.recordC(&t, tid) // before it makes the first call for us
		}
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

// recordThread records the kernel's state of a thread.
func (st *stand) recordThread(tid int) (state.Thread, error) {
	t := state.Thread{TID: st.g.idOf(tid)}
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

// question is a call that threads make for us. An answer is noted for the i-th thread.
type question struct {
	nr   uint64
	args func(s *trace.Scratch) []uint64
	skip func(i int) bool // nil: all are asked
	note func(i int, result uint64, in *trace.Injector, s *trace.Scratch) error
}

// askThreads has all threads tell what the kernel tells only themselves. Each borrows
// memory of its own.
func (st *stand) askThreads(r *recorder) error {
	questions := []question{{
		nr:   unix.SYS_SIGALTSTACK,
		args: func(s *trace.Scratch) []uint64 { return []uint64{0, s.Addr} },
		note: func(i int, _ uint64, in *trace.Injector, s *trace.Scratch) error {
			return st.noteThread(r, &r.state.Threads[i], in, s)
		},
	}}
	if r.runtimes.C != nil {
		questions = append(questions, st.questionsC(r)...)
	}
	return st.ask(r, questions)
}

// ask puts questions to the threads, each to all at the same time: what takes long is to
// wake them up.
func (st *stand) ask(r *recorder, questions []question) (failed error) {
	asked := make([]*trace.Injector, 0, len(st.TIDs))
	borrowed := make([]*trace.Scratch, 0, len(st.TIDs))
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
		s, err := trace.Borrow(r.mem, &in.Own)
		if fail(err) {
			break
		}
		borrowed = append(borrowed, s)
	}
	for i := 0; i < len(questions) && failed == nil; i++ {
		fail(questions[i].put(asked, borrowed))
	}
	for _, s := range borrowed {
		fail(s.GiveBack())
	}
	for _, in := range asked {
		fail(in.End())
	}
	return failed
}

// put asks. Each thread that was sent off is brought back, even if others fail.
func (q *question) put(asked []*trace.Injector, borrowed []*trace.Scratch) (failed error) {
	fail := func(err error) bool {
		if err != nil && failed == nil {
			failed = err
		}
		return err != nil
	}
	var sent []int
	for i, s := range borrowed {
		if q.skip != nil && q.skip(i) {
			continue
		}
		if fail(asked[i].Start(q.nr, q.args(s)...)) {
			break
		}
		sent = append(sent, i)
	}
	for _, i := range sent {
		fail(asked[i].Enter())
	}
	for _, i := range sent {
		result, err := asked[i].Finish()
		if !fail(err) {
			fail(q.note(i, result, asked[i], borrowed[i]))
		}
	}
	return failed
}

// noteThread completes a thread's entry.
func (st *stand) noteThread(r *recorder, t *state.Thread, in *trace.Injector, s *trace.Scratch) error {
	var p [24]byte
	if err := s.Read(p[:]); err != nil {
		return err
	}
	own := trace.MendImage(in.Own, st.g.callOf(r.mem, t.TID, &in.Own))
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
