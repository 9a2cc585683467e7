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

// checkTimers refuses timers that cannot be made anew.
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
	for i := range all {
		if err := refuseTimer(&all[i]); err != nil {
			return nil, err
		}
		if all[i].TID != 0 {
			all[i].TID = g.idOf(all[i].TID)
		}
	}
	return all, nil
}

// refuseTimer refuses clocks that count what one thread or another process uses of the
// processor, as a CPU profile of Go has them: who made the timer is not known.
func refuseTimer(t *proc.Created) error {
	const thread = 4 // of a clock below 0, above which there is the number of a process, or ^0 for its maker
	own := t.Clock>>3 == -1 && t.Clock&thread == 0
	switch {
	case t.Clock < 0 && !own || t.Clock == unix.CLOCK_THREAD_CPUTIME_ID:
		return refusal.New("stop the CPU profile while checkpoints are taken, or use a clock of the process",
			"it has timers of its own on the time that a thread computes (timer %d)", t.ID)
	case t.Notify == proc.NotifyThread && t.TID == 0:
		return refusal.New("delete the timer before the thread ends", "its timer %d tells a thread that has ended", t.ID)
	}
	return nil
}

// askTimers notes how they are set.
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
