package state

import "fmt"

// maxTimers bounds the timers of timer_create, and their numbers.
const maxTimers = 1 << 16

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
		case t.ID < 0 || t.ID >= maxTimers || i > 0 && t.ID <= s.Timers[i-1].ID:
			return fmt.Errorf("timer %d", t.ID)
		case t.Left < 0 || t.Interval < 0 || t.Signal < 0 || t.Signal > NumSignals || t.TID < 0:
			return fmt.Errorf("timer %d: %+v", t.ID, t)
		}
	}
	if s.Personality > 1<<32-1 {
		return fmt.Errorf("personality %#x", s.Personality)
	}
	return nil
}
