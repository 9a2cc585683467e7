package capture

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// Timers of setitimer and timer_create. A copy inherits neither: the process itself is
// asked while it stands. What is left of their time is noted, whatever way they were set.

// checkTimers refuses timers that cannot be made again.
func (g *Target) checkTimers() error {
	_, err := g.timers()
	return err
}

// timers lists those of timer_create, as far as the kernel tells of them.
func (g *Target) timers() ([]proc.Created, error) {
	all, err := proc.Parsed(g.PID, "timers", proc.ParseTimers)
	if errors.Is(err, fs.ErrNotExist) && !g.Ended() {
		return nil, nil // the kernel does not tell
	}
	if err != nil {
		return nil, fmt.Errorf("timers: %w", err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	tids, err := proc.Threads(g.PID)
	if err != nil {
		return nil, err
	}
	o := owners{process: g.idOf(g.PID), threads: map[int]int{}}
	for _, tid := range tids {
		o.threads[tid] = g.idOf(tid)
	}
	for i := range all {
		if err := o.settle(&all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// owners are those whom timers tell and on whose time they run.
type owners struct {
	process int
	threads map[int]int // the numbers that threads have there, by those that they have here
}

// settle says of a timer whose time it runs on and whom it tells, by the numbers that the process knows. The kernel does not tell which thread
// has made a timer on its own time. It is taken for the one that is told, as it is in CPU profiles, Go's among them. A timer of a thread
// that has ended never rings: the program has nothing of it but the number.
func (o owners) settle(t *proc.Created) error {
	if t.ID >= proc.MostCounted && !proc.NumbersTimers() {
		return refusal.New("start the program again, or use Linux 6.15 or newer", "its timer %d has a number that this kernel gives only after as many timers", t.ID)
	}
	told := o.threads[t.TID]
	deaf := t.Notify == proc.NotifyThread && told == 0
	if t.TID = told; deaf {
		t.Notify, t.Signal, t.Value = proc.NotifyNone, 0, 0
	}
	if t.Clock >= 0 {
		return nil
	}
	kind, number := t.Clock&proc.ClockKind, proc.OwnerOf(t.Clock)
	t.Clock = proc.ClockOf(0, kind)
	switch {
	case kind&proc.ClockOfThread == 0 && number != 0 && number != o.process:
		return refusal.New("use a clock of the process itself", "its timer %d runs on the time that process %d computes", t.ID, number)
	case kind&proc.ClockOfThread == 0:
		return nil
	case number != 0 && o.has(number):
		t.Of = number
	case number == 0 && told != 0:
		t.Of = told
	case number == 0 && len(o.threads) == 1 && !deaf:
		t.Of = o.process
	case number == 0 && !deaf:
		return refusal.New("have the timer tell the thread that makes it (SIGEV_THREAD_ID), or take the thread's clock from pthread_getcpuclockid",
			"its timer %d runs on the time that one thread computes, and the kernel does not tell which", t.ID)
	default:
		t.Clock, t.Notify, t.TID, t.Signal, t.Value = unix.CLOCK_MONOTONIC, proc.NotifyNone, 0, 0, 0
	}
	return nil
}

// has reports whether a thread lives that the process knows by this number.
func (o owners) has(number int) bool {
	for _, there := range o.threads {
		if there == number {
			return true
		}
	}
	return false
}

// askTimers records how they are set.
func (st *stand) askTimers(r *recorder, in *trace.Injector, s *trace.Scratch) (err error) {
	if r.state.Timers, err = st.g.timers(); err != nil {
		return err
	}
	var p [trace.ScratchSize]byte
	for i := range r.state.Timers {
		t := &r.state.Timers[i]
		if _, err := in.Call(unix.SYS_TIMER_GETTIME, uint64(t.ID), s.Addr); err != nil {
			return fmt.Errorf("timer %d: %w", t.ID, err)
		}
		if err := s.Read(p[:]); err != nil {
			return err
		}
		t.Interval, t.Left = pair(p[:], 1e9), pair(p[16:], 1e9)
		if t.Notify == proc.NotifyNone && t.Left == 0 {
			t.Interval = 0 // it does not run; of others the signal may be on its way
		}
	}
	running := false
	var all []state.Itimer
	for which := range uint64(state.NumItimers) {
		if _, err := in.Call(unix.SYS_GETITIMER, which, s.Addr); err != nil {
			return fmt.Errorf("interval timers: %w", err)
		}
		if err := s.Read(p[:]); err != nil {
			return err
		}
		t := state.Itimer{Interval: pair(p[:], 1e6), Left: pair(p[16:], 1e6)}
		running = running || t != state.Itimer{}
		all = append(all, t)
	}
	if running {
		r.state.Itimers = all
	}
	return nil
}

// pair reads seconds and their parts.
func pair(p []byte, unit int64) int64 { return int64(le.Uint64(p))*unit + int64(le.Uint64(p[8:])) }
