package state

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
)

// Segment is System V shared memory. It has its id again in a namespace that the family has for itself.
type Segment struct {
	ID      int    `json:"id"`
	Key     int    `json:"key,omitempty"`
	Mode    uint32 `json:"mode"` // as shmctl tells it, with the bits below
	Size    uint64 `json:"size"`
	Creator int    `json:"creator,omitempty"` // the process of the family that made it, 0: another
}

// Bits of a Segment's mode beside its permissions: it ends when no process is attached any more
// (IPC_RMID), and it is kept in memory (SHM_LOCK).
const (
	SegmentEnds   = 0o1000
	SegmentLocked = 0o2000
)

// MaxSegment bounds one, whose content is read while all stand.
const MaxSegment = 64 << 20

// maxSegments is the kernel's default limit.
const maxSegments = 4096

// Extent gives the size in memory.
func (g *Segment) Extent() uint64 { return (g.Size + pages.Size - 1) &^ (pages.Size - 1) }

// ErrTorn is of a segment that is not attached whole.
var ErrTorn = errors.New("a part of it was unmapped, or moved")

// Attachments counts how often regions attach each segment, as the kernel does: each region is one. They have to
// attach it whole, in one region or in several, of different protection, that follow each other. size tells that of
// a segment in memory.
func Attachments(regions []Region, size func(id int) uint64) (map[int]int, error) {
	count := map[int]int{}
	for i := 0; i < len(regions); i++ {
		if !regions[i].SysV {
			continue
		}
		first, next := &regions[i], uint64(0)
		id, want := int(first.Inode), size(int(first.Inode))
		for ; next < want && i < len(regions); i++ {
			r := &regions[i]
			if !r.SysV || r.Inode != first.Inode || r.Offset != next || r.Start != first.Start+next || r.Has("mw") != first.Has("mw") {
				break
			}
			next += r.End - r.Start
			count[id]++
		}
		if i--; want == 0 || next != want {
			return nil, fmt.Errorf("System V shared memory %d at %#x: %w", id, first.Start, ErrTorn)
		}
	}
	return count, nil
}

// validSysV checks the segments of the family and where its processes attach them.
func (s *State) validSysV() error {
	if len(s.SysV) > maxSegments {
		return fmt.Errorf("%d pieces of System V shared memory", len(s.SysV))
	}
	sizes := map[int]uint64{}
	for i := range s.SysV {
		g := &s.SysV[i]
		_, twice := sizes[g.ID]
		const key = 1 << 31
		if twice || g.ID < 0 || g.ID >= key || g.Key < -key || g.Key >= key || g.Size == 0 || g.Size > MaxSegment || g.Mode&^0o3777 != 0 {
			return fmt.Errorf("System V shared memory %+v", *g)
		}
		if g.Creator != 0 && !slices.ContainsFunc(s.All(), func(m *State) bool { return m.PID == g.Creator }) {
			return fmt.Errorf("System V shared memory %d is of process %d", g.ID, g.Creator)
		}
		sizes[g.ID] = g.Extent()
	}
	for _, m := range s.All() {
		if _, err := Attachments(m.Regions, func(id int) uint64 { return sizes[id] }); err != nil {
			return err
		}
		if m != s && len(m.SysV) > 0 {
			return fmt.Errorf("process %d has System V shared memory of its own", m.PID)
		}
	}
	return nil
}
