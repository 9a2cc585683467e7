package capture

import (
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// Memory that mlock keeps from being swapped out. A copy does not inherit that, and
// smaps tells it at a price for each page: it is asked before the process is stopped,
// and only where anything is locked.

// flagLocked is of smaps.
const flagLocked = "lo"

// lookForLocked records what the process has locked so far.
func (g *Target) lookForLocked(status proc.Status) error {
	g.locked = nil
	if status.Locked == 0 {
		return nil
	}
	maps, err := proc.Parsed(g.PID, "smaps", proc.ParseSmaps)
	if err != nil {
		return err
	}
	for i := range maps {
		if m := &maps[i]; m.Has(flagLocked) && !m.Kernels() {
			whole := m.Anonymous() && m.Own == m.End-m.Start
			g.locked = append(g.locked, state.Locked{Extent: pages.Extent{Start: m.Start, End: m.End}, Whole: whole})
		}
	}
	return nil
}

// describeLocked records which part of it is still mapped: neighbours may be one mapping now.
func (c *captured) describeLocked(maps []proc.Mapping) {
	for _, l := range c.g.locked {
		for i := range maps {
			start, end := max(l.Start, maps[i].Start), min(l.End, maps[i].End)
			if start < end {
				c.state.Locked = append(c.state.Locked, state.Locked{Extent: pages.Extent{Start: start, End: end}, Whole: l.Whole})
			}
		}
	}
}
