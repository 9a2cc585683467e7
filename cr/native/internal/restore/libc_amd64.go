package restore

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// callsC restores what a thread of C has told the kernel of itself.
func (r *restore) callsC(t *state.Thread) []call {
	var calls []call
	if t.Tidy != 0 {
		calls = append(calls, call{what: "set_tid_address", nr: unix.SYS_SET_TID_ADDRESS, args: [6]uint64{t.Tidy}})
	}
	if t.Robust[0] != 0 {
		calls = append(calls, call{what: "list of robust locks", nr: unix.SYS_SET_ROBUST_LIST, args: [6]uint64{t.Robust[0], t.Robust[1]}})
	}
	if q := t.Rseq; q != nil {
		at := q.Area
		if r.rseq == nil {
			r.rseq = map[uint64]bool{}
		}
		r.rseq[at] = false
		calls = append(calls, call{what: "restartable sequences", nr: unix.SYS_RSEQ, args: [6]uint64{at, uint64(q.Size), 0, uint64(q.Sig)},
			may: true, done: func(uint64) { r.rseq[at] = true }})
	}
	if runtimes.Of(r.program).C == nil {
		return calls // its slack was not set
	}
	slack := uint64(state.UsualSlack)
	if t.Slack != 0 {
		slack = t.Slack
	}
	return append(calls, call{what: "slack of timers", nr: unix.SYS_PRCTL, args: [6]uint64{unix.PR_SET_TIMERSLACK, slack}})
}

// withoutRseq tells threads for which this kernel takes no restartable sequences, of the
// size that the kernel they come from had, that there are none: the C library asks the
// kernel then, as it does where there never were any.
func (r *restore) withoutRseq() error {
	const (
		cpuAt  = 4
		failed = ^uint32(1) // RSEQ_CPU_ID_REGISTRATION_FAILED
	)
	missing := 0
	for at, ok := range r.rseq {
		if ok {
			continue
		}
		missing++
		if err := r.puppet.mem.Poke(le.AppendUint32(nil, failed), at+cpuAt); err != nil {
			return err
		}
	}
	if missing > 0 {
		r.note("this kernel has other restartable sequences: %d threads go on without", missing)
	}
	return nil
}

// setPolicies has threads scheduled as they were, as far as that is permitted.
func (r *restore) setPolicies() error {
	refused := 0
	for i, tid := range r.tids {
		p := r.state.Threads[i].Policy
		if p == nil {
			continue
		}
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: p.Policy, Flags: p.Flags, Nice: int32(r.state.Threads[i].Nice),
			Priority: p.Priority, Runtime: p.Runtime, Deadline: p.Deadline, Period: p.Period}
		err := unix.SchedSetAttr(tid, &attr, 0)
		switch {
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.EBUSY):
			refused++
		case err != nil:
			return fmt.Errorf("scheduling of thread %d: %w", r.state.Threads[i].TID, err)
		}
	}
	if refused > 0 {
		r.note("%d threads are not scheduled as they were: that needs privilege (ulimit -r)", refused)
	}
	return nil
}
