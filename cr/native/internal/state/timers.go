package state

import (
	"fmt"
	"slices"
)

// maxTimers bounds the timers of timer_create, maxTimerID their numbers, which the kernel counts on whatever is deleted.
const (
	maxTimers  = 1 << 16
	maxTimerID = 1<<31 - 1
)

// validTimers checks those of setitimer and of timer_create, and the personality.
func (s *State) validTimers() error {
	if len(s.Itimers) != 0 && len(s.Itimers) != NumItimers {
		return fmt.Errorf("%d interval timers", len(s.Itimers))
	}
	for i, t := range s.Itimers {
		if t.Left < 0 || t.Interval < 0 {
			return fmt.Errorf("interval timer %d: %+v", i, t)
		}
	}
	if len(s.Timers) > maxTimers {
		return fmt.Errorf("%d timers", len(s.Timers))
	}
	for i, t := range s.Timers {
		switch {
		case t.ID < 0 || t.ID > maxTimerID || i > 0 && t.ID <= s.Timers[i-1].ID:
			return fmt.Errorf("timer %d", t.ID)
		case t.Left < 0 || t.Interval < 0 || t.Signal < 0 || t.Signal > NumSignals || t.TID < 0:
			return fmt.Errorf("timer %d: %+v", t.ID, t)
		case t.TID != 0 && !s.hasThread(t.TID):
			return fmt.Errorf("timer %d tells thread %d, which is none", t.ID, t.TID)
		case (t.Of != 0) != t.OnThread() || t.Of != 0 && !s.hasThread(t.Of):
			return fmt.Errorf("timer %d on the time of thread %d, by clock %d", t.ID, t.Of, t.Clock)
		}
	}
	if s.Personality > 1<<32-1 {
		return fmt.Errorf("personality %#x", s.Personality)
	}
	return nil
}

func (s *State) hasThread(tid int) bool {
	return slices.ContainsFunc(s.Threads, func(th Thread) bool { return th.TID == tid })
}
