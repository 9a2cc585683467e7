package restore

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// System V shared memory is made again in a namespace that the family has for itself: by who made it, with its
// id, key and content, before any process has its memory; each is attached where it was, as its memory is built;
// then it gets its permissions, which may forbid that, and ends with the last attachment if it was to.

// Not in x/sys/unix.
const (
	ipcCreate, ipcExclusive    = 0o1000, 0o2000
	ipcRemove, ipcSet, shmLock = 0, 1, 11
	shmReadOnly                = 0o10000
	anybody                    = 0o777
)

// makeSegments makes the shared memory of the family.
func (r *restore) makeSegments() error {
	if r.first != nil {
		return nil
	}
	for i := range r.state.SysV {
		s := &r.state.SysV[i]
		maker := r
		for _, m := range r.kin {
			if m.state.PID == s.Creator {
				maker = m
			}
		}
		err := maker.makeSegment(s)
		if err == nil {
			err = r.fillSegment(s)
		}
		if err != nil {
			return fmt.Errorf("System V shared memory %d: %w", s.ID, err)
		}
	}
	return nil
}

// makeSegment makes one, empty, that all of this user may use.
func (r *restore) makeSegment(s *state.Segment) error {
	var fd, id uint64
	err := r.puppet.run(r.pid, []call{{what: trace.NextSegment, nr: unix.SYS_OPEN, args: [6]uint64{0, unix.O_WRONLY},
		data: append([]byte(trace.NextSegment), 0), done: func(n uint64) { fd = n }}})
	if err != nil {
		return err
	}
	number := strconv.AppendInt(nil, int64(s.ID), 10)
	err = r.puppet.run(r.pid, []call{
		{what: trace.NextSegment, nr: unix.SYS_WRITE, args: [6]uint64{fd, 0, uint64(len(number))}, data: number, at: 1},
		{what: "closing", nr: unix.SYS_CLOSE, args: [6]uint64{fd}},
		{what: "making it", nr: unix.SYS_SHMGET, args: [6]uint64{uint64(uint32(s.Key)), s.Size, ipcCreate | ipcExclusive | 0o600}, done: func(n uint64) { id = n }},
	})
	if err == nil && id != uint64(s.ID) {
		err = fmt.Errorf("its id is %d", id)
	}
	return err
}

// fillSegment has the first process attach to one for a moment, where its content is written.
func (r *restore) fillSegment(s *state.Segment) error {
	data, err := r.files.content(state.KindSysV, strconv.Itoa(s.ID))
	if err != nil {
		return err
	}
	if uint64(len(data)) > s.Size {
		return fmt.Errorf("%w: %d bytes of %d", state.ErrImage, len(data), s.Size)
	}
	var at uint64
	err = r.puppet.run(r.pid, []call{{what: "attaching it", nr: unix.SYS_SHMAT, args: [6]uint64{uint64(s.ID)}, done: func(n uint64) { at = n }}})
	if err == nil {
		err = r.puppet.mem.Poke(data, at)
	}
	if err != nil {
		return err
	}
	return r.puppet.run(r.pid, []call{{what: "detaching it", nr: unix.SYS_SHMDT, args: [6]uint64{at}}})
}

// attachCalls attach a segment, with the first of its regions, and protect each as it was.
func attachCalls(g *state.Region) []call {
	var calls []call
	prot, flags := unix.PROT_READ|unix.PROT_WRITE, uint64(0)
	if !g.Has("mw") {
		prot, flags = unix.PROT_READ, shmReadOnly
	}
	if g.Offset == 0 {
		calls = append(calls, call{what: fmt.Sprintf("attaching System V shared memory %d at %#x", g.Inode, g.Start),
			nr: unix.SYS_SHMAT, args: [6]uint64{g.Inode, g.Start, flags}})
	}
	if g.Prot != prot {
		calls = append(calls, protectCall(pages.Extent{Start: g.Start, End: g.End}, uint64(g.Prot)))
	}
	return calls
}

// settleSegments gives them their permissions, when all are attached, and marks those that are to end.
func (r *restore) settleSegments() error {
	if r.first != nil {
		return nil
	}
	var calls []call
	for i := range r.state.SysV {
		s := &r.state.SysV[i]
		id := uint64(s.ID)
		calls = append(calls, call{what: "permissions of System V shared memory", nr: unix.SYS_SHMCTL, args: [6]uint64{id, ipcSet}, data: permissions(s), at: 2})
		if s.Mode&state.SegmentLocked != 0 {
			calls = append(calls, call{what: "keeping System V shared memory in memory", nr: unix.SYS_SHMCTL, args: [6]uint64{id, shmLock}})
		}
		if s.Mode&state.SegmentEnds != 0 {
			calls = append(calls, call{what: "removing System V shared memory", nr: unix.SYS_SHMCTL, args: [6]uint64{id, ipcRemove}})
		}
	}
	return r.puppet.run(r.pid, calls)
}

// permissions is what shmctl takes: a struct shmid_ds.
func permissions(s *state.Segment) []byte {
	p := make([]byte, 112)
	le.PutUint32(p[4:], uint32(os.Geteuid()))
	le.PutUint32(p[8:], uint32(os.Getegid()))
	le.PutUint32(p[20:], s.Mode&anybody)
	return p
}
