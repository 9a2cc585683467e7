package native

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
)

// Memory that mlock keeps from being swapped out. A copy does not inherit that, and
// smaps tells it at a price for each page: it is asked before the process is stopped,
// and only where anything is locked.

// flagLocked is of smaps; mlockOnFault locks pages as they are touched.
const (
	flagLocked   = "lo"
	mlockOnFault = 1
)

// lookForLocked notes what the process has locked by now.
func (g *target) lookForLocked(status proc.Status) error {
	g.locked = nil
	if status.Locked == 0 {
		return nil
	}
	maps, err := proc.Parsed(g.pid, "smaps", proc.ParseSmaps)
	if err != nil {
		return err
	}
	for i := range maps {
		if m := &maps[i]; m.Has(flagLocked) && !m.Kernels() {
			whole := m.Anonymous() && m.Own == m.End-m.Start
			g.locked = append(g.locked, Locked{Extent{m.Start, m.End}, whole})
		}
	}
	return nil
}

// describeLocked notes what of it is still mapped: neighbours may be one mapping now.
func (c *captured) describeLocked(maps []proc.Mapping) {
	for _, l := range c.g.locked {
		for i := range maps {
			start, end := max(l.Start, maps[i].Start), min(l.End, maps[i].End)
			if start < end {
				c.state.Locked = append(c.state.Locked, Locked{Extent{start, end}, l.Whole})
			}
		}
	}
}

// lockMemory locks the memory again, as far as it is permitted. What was not there
// as a whole is not fetched: it is locked as it is touched.
func (r *restore) lockMemory() error {
	var calls []call
	locked := 0
	for _, l := range r.state.Locked {
		flags := uint64(mlockOnFault)
		if l.Whole {
			flags = 0
		}
		calls = append(calls, call{what: "locking memory", nr: unix.SYS_MLOCK2, args: [6]uint64{l.Start, l.End - l.Start, flags},
			may: true, done: func(uint64) { locked++ }})
	}
	if err := r.puppet.run(r.pid, calls); err != nil {
		return err
	}
	if n := len(calls) - locked; n > 0 {
		r.files.notes = append(r.files.notes, fmt.Sprintf("%d of %d regions are not locked in memory as they were (raise the limit: ulimit -l)", n, len(calls)))
	}
	return nil
}
