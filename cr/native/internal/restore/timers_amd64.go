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

// makeTimers makes the timers of timer_create again, by their numbers. They do not run yet.
func (r *restore) makeTimers() error {
	timers := r.state.Timers
	if len(timers) == 0 {
		return nil
	}
	numbered := false
	switchTo := func(on uint64) error {
		return r.puppet.run(r.pid, []call{{what: "PR_TIMER_CREATE_RESTORE_IDS", nr: unix.SYS_PRCTL, args: [6]uint64{proc.RestoreTimerIDs, on},
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

// countedTimers makes timers in the order of the numbers that a new process gives them, from 0 on, and deletes those that are not wanted at
// once: the kernel does not give their numbers again.
func (r *restore) countedTimers() (calls []call, err error) {
	timers := r.state.Timers
	last := timers[len(timers)-1].ID
	if last >= proc.MostCounted {
		return nil, fmt.Errorf("%w: a timer has the number %d, which this kernel does not give in one step (Linux 6.15 does)", state.ErrHost, last)
	}
	for id := range last + 1 {
		spare := timers[0].ID != id
		want := proc.Created{ID: id, Clock: unix.CLOCK_MONOTONIC, Notify: proc.NotifyNone}
		if !spare {
			want, timers = timers[0], timers[1:]
		}
		c, err := r.timerCall(&want)
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
		if spare {
			calls = append(calls, call{what: "deleting a timer", nr: unix.SYS_TIMER_DELETE, args: [6]uint64{uint64(id)}})
		}
	}
	return calls, nil
}

// timerCall makes one timer.
func (r *restore) timerCall(t *proc.Created) (call, error) {
	const eventSize = 64 // struct sigevent, behind which the number lies
	tid, err := r.idNow(t.TID)
	if err != nil {
		return call{}, fmt.Errorf("timer %d: %w", t.ID, err)
	}
	clock, err := r.clockNow(t)
	if err != nil {
		return call{}, fmt.Errorf("timer %d: %w", t.ID, err)
	}
	p := le.AppendUint64(nil, t.Value)
	p = le.AppendUint32(p, uint32(t.Signal))
	p = le.AppendUint32(p, uint32(t.Notify))
	p = le.AppendUint32(p, uint32(tid))
	p = append(p, make([]byte, eventSize-len(p))...)
	p = le.AppendUint64(p, uint64(t.ID))
	return call{what: fmt.Sprintf("timer %d", t.ID), nr: unix.SYS_TIMER_CREATE,
		args: [6]uint64{uint64(clock)}, data: p, at: 1, next: 2, skip: eventSize}, nil
}

// idNow is the number that a thread of the image has now, as the process knows it.
func (r *restore) idNow(tid int) (int, error) {
	if tid == 0 {
		return 0, nil
	}
	i := slices.IndexFunc(r.state.Threads, func(th state.Thread) bool { return th.TID == tid })
	if i < 0 {
		return 0, fmt.Errorf("%w: thread %d is none", state.ErrImage, tid)
	}
	return r.puppet.idOf(r.tids[i]), nil
}

// clockNow is the clock of a timer. That of one thread has the thread's number: the first thread makes all timers.
func (r *restore) clockNow(t *proc.Created) (int, error) {
	if !t.OnThread() {
		return t.Clock, nil
	}
	tid, err := r.idNow(t.Of)
	return proc.ClockOf(tid, t.Clock&proc.ClockKind), err
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
	same := slices.EqualFunc(now, r.state.Timers, func(a, b proc.Created) bool {
		clock, err := r.clockNow(&b)
		return err == nil && a.ID == b.ID && a.Clock == clock && a.Signal == b.Signal
	})
	if !same {
		return fmt.Errorf("%w: its timers are %+v, and here %+v", state.ErrHost, r.state.Timers, now)
	}
	return nil
}

// startTimers starts all timers with the rest of their time. A timer that had
// expired, with the signal still on its way, starts over.
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
