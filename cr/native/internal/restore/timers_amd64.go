package restore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// restoreTimerIDs is PR_TIMER_CREATE_RESTORE_IDS, of Linux 6.15: timers are made with the
// number asked for.
const restoreTimerIDs = 77

// mostSpare bounds how many timers are made and deleted until one has the number it had.
const mostSpare = 1 << 12

// makeTimers makes the timers of timer_create again, by their numbers. They do not run yet.
func (r *restore) makeTimers() error {
	timers := r.state.Timers
	if len(timers) == 0 {
		return nil
	}
	numbered := false
	switchTo := func(on uint64) error {
		return r.puppet.run(r.pid, []call{{what: "PR_TIMER_CREATE_RESTORE_IDS", nr: unix.SYS_PRCTL, args: [6]uint64{restoreTimerIDs, on},
			may: true, done: func(uint64) { numbered = on == 1 }}})
	}
	if err := switchTo(1); err != nil {
		return err
	}
	var calls []call
	if numbered {
		for i := range timers {
			c, err := r.timerCall(&timers[i])
			if err != nil {
				return err
			}
			calls = append(calls, c)
		}
	} else {
		var err error
		if calls, err = r.countedTimers(); err != nil {
			return err
		}
	}
	if err := r.puppet.run(r.pid, calls); err != nil {
		return err
	}
	if numbered {
		if err := switchTo(0); err != nil {
			return err
		}
	}
	return r.sameTimers()
}

// countedTimers makes timers in the order of the numbers that a new process gives them,
// from 0 on, and deletes those that are not wanted.
func (r *restore) countedTimers() ([]call, error) {
	timers := r.state.Timers
	last := timers[len(timers)-1].ID
	if last >= mostSpare {
		return nil, fmt.Errorf("%w: a timer has the number %d, which this kernel does not give in one step (Linux 6.15 does)", state.ErrHost, last)
	}
	var calls, spare []call
	for id := range last + 1 {
		want := proc.Created{ID: id, Notify: proc.NotifyNone}
		i := slices.IndexFunc(timers, func(t proc.Created) bool { return t.ID == id })
		if i >= 0 {
			want = timers[i]
		} else {
			spare = append(spare, call{what: "deleting a timer", nr: unix.SYS_TIMER_DELETE, args: [6]uint64{uint64(id)}})
		}
		c, err := r.timerCall(&want)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return append(calls, spare...), nil
}

// timerCall makes one timer.
func (r *restore) timerCall(t *proc.Created) (call, error) {
	const eventSize = 64 // struct sigevent, behind which the number lies
	p := le.AppendUint64(nil, t.Value)
	p = le.AppendUint32(p, uint32(t.Signal))
	p = le.AppendUint32(p, uint32(t.Notify))
	tid := 0
	if t.Notify == proc.NotifyThread {
		i := slices.IndexFunc(r.state.Threads, func(th state.Thread) bool { return th.TID == t.TID })
		if i < 0 {
			return call{}, fmt.Errorf("%w: timer %d is of thread %d, which is none", state.ErrImage, t.ID, t.TID)
		}
		tid = r.puppet.idOf(r.tids[i])
	}
	p = le.AppendUint32(p, uint32(tid))
	p = append(p, make([]byte, eventSize-len(p))...)
	p = le.AppendUint64(p, uint64(t.ID))
	return call{what: fmt.Sprintf("timer %d", t.ID), nr: unix.SYS_TIMER_CREATE,
		args: [6]uint64{uint64(t.Clock)}, data: p, at: 1, next: 2, skip: eventSize}, nil
}

// sameTimers checks that the timers have the numbers that they had, as far as the kernel
// tells of them.
func (r *restore) sameTimers() error {
	now, err := proc.Parsed(r.pid, "timers", proc.ParseTimers)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	same := slices.EqualFunc(now, r.state.Timers, func(a, b proc.Created) bool { return a.ID == b.ID && a.Clock == b.Clock && a.Signal == b.Signal })
	if !same {
		return fmt.Errorf("%w: its timers are %+v, and here %+v", state.ErrHost, r.state.Timers, now)
	}
	return nil
}

// startTimers has all timers go on with what was left of their time. One whose time had
// come, with the signal still on its way, begins anew.
func (r *restore) startTimers() error {
	var calls []call
	for i := range r.state.Timers {
		t := &r.state.Timers[i]
		if left := cmp.Or(t.Left, t.Interval); left > 0 {
			calls = append(calls, call{what: fmt.Sprintf("timer %d", t.ID), nr: unix.SYS_TIMER_SETTIME,
				args: [6]uint64{uint64(t.ID)}, data: spans(t.Interval, left, 1e9), at: 2})
		}
	}
	for which, t := range r.state.Itimers {
		if left := cmp.Or(t.Left, t.Interval); left > 0 {
			calls = append(calls, call{what: "interval timer", nr: unix.SYS_SETITIMER,
				args: [6]uint64{uint64(which)}, data: spans(t.Interval, left, 1e6), at: 1})
		}
	}
	return r.puppet.run(r.pid, calls)
}

// spans is an interval and what is left, each as seconds and their parts.
func spans(interval, left, unit int64) []byte {
	var p []byte
	for _, t := range []int64{interval, left} {
		p = le.AppendUint64(le.AppendUint64(p, uint64(t/unit)), uint64(t%unit))
	}
	return p
}
