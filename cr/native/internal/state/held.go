package state

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// maxLocks bounds the locks of a descriptor.
const maxLocks = 1 << 16

// validHeld checks the locks that a descriptor holds, who gets signals about it, and by
// which numbers an epoll set has what it watches.
func (s *State) validHeld(f *File, byFD map[int]*File) error {
	if len(f.Locks) > maxLocks {
		return fmt.Errorf("%d locks", len(f.Locks))
	}
	for _, l := range f.Locks {
		known := l.Class == proc.LockFlock || l.Class == proc.LockPOSIX || l.Class == proc.LockOFD
		if !known || l.Start < 0 || l.End != -1 && l.End < l.Start {
			return fmt.Errorf("lock %+v", l)
		}
	}
	if f.Room < 0 || f.Room > 1<<31 {
		return fmt.Errorf("a pipe of %d bytes", f.Room)
	}
	if o := f.Owner; o != nil && (o.Type < 0 || o.Type > 1 || o.Signal < 0 || o.Signal > NumSignals ||
		!slices.ContainsFunc(s.Threads, func(t Thread) bool { return t.TID == o.ID })) {
		return fmt.Errorf("signals go to %+v", *o)
	}
	if f.Socket != nil {
		if err := s.validSocket(f, byFD); err != nil {
			return err
		}
	}
	for _, w := range f.Epoll {
		if w.As != nil && byFD[*w.As] == nil {
			return fmt.Errorf("watched descriptor %d", *w.As)
		}
	}
	return nil
}
