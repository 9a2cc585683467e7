package capture

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// System V shared memory gets its id again only in a namespace without other processes. So a
// restored family that has some gets one, and what else there is of System V is not there: the
// family must not have used that. Of semaphores and queues the kernel does not tell who uses them.

// attached counts how often the family, copies of it, and others are attached to each segment.
type attached struct {
	own, copies map[int]int
	others      map[int]int // a process, by segment
}

const sysvRemedy = "detach it while checkpoints are taken, or use -cr=self"

// attachments looks at all processes that this user can see.
func (g *Target) attachments() (attached, error) {
	a := attached{map[int]int{}, map[int]int{}, map[int]int{}}
	pids, err := proc.Numbers("/proc")
	if err != nil {
		return a, err
	}
	space := trace.IPCOf(g.PID)
	for _, pid := range pids {
		all, err := proc.Parsed(pid, "maps", proc.ParseMaps)
		if err != nil || !slices.ContainsFunc(all, func(m proc.Mapping) bool { return m.OfSysV() }) || trace.IPCOf(pid) != space {
			continue // as a rule
		}
		status, err := proc.Parsed(pid, "status", proc.ParseStatus)
		if err != nil {
			continue
		}
		for i := range all {
			m := &all[i]
			switch id := int(m.Inode); {
			case !m.OfSysV():
			case g.related(pid):
				a.own[id]++
			case status.Tracer != 0 && trace.IsOurThread(status.Tracer): // of an earlier image
				a.copies[id]++
			case g.outside(pid):
				a.others[id] = pid
			}
		}
	}
	return a, nil
}

// checkSysV refuses what can be seen from outside.
func (g *Target) checkSysV() error {
	has := g.sysv
	for _, m := range g.kin {
		has = has || m.sysv
	}
	if !has {
		return nil
	}
	const looks = 10 // at a family that attaches and detaches
	for look := 1; ; look++ {
		a, err := g.attachments()
		if err != nil || len(a.own) == 0 {
			return err
		}
		if err := trace.SameSysV(); err != nil {
			return refusal.New(sysvRemedy, "System V shared memory %d, which cannot have its id again: %v", firstOf(a.own), err)
		}
		if _, gone, _ := workingDir(g.PID); gone {
			return refusal.New("change to another folder", "System V shared memory, and a working directory that was deleted")
		}
		if err := a.checkOthers(); err != nil || trace.IPCOf(g.PID) != trace.IPCOf(os.Getpid()) {
			return err
		}
		if _, err = g.segments(a, readSysV); err == nil || look == looks {
			return err
		}
	}
}

func firstOf(ids map[int]int) int { return slices.Min(slices.Collect(maps.Keys(ids))) }

// checkOthers refuses what a process outside the family has, too.
func (a *attached) checkOthers() error {
	for id, pid := range a.others {
		if a.own[id] > 0 {
			return refusal.New(sysvRemedy, "System V shared memory %d, to which process %d is attached, too", id, pid)
		}
	}
	return nil
}

// readSysV reads one of the lists of what there is in the namespace of this process.
func readSysV(name string) ([]proc.SysV, error) {
	p, err := os.ReadFile("/proc/sysvipc/" + name)
	if err != nil {
		return nil, fmt.Errorf("System V objects: %w", err)
	}
	return proc.ParseSysV(p)
}

// segments describes those that the family is attached to, and refuses whatever else it may use.
func (g *Target) segments(a attached, read func(name string) ([]proc.SysV, error)) ([]state.Segment, error) {
	apart := trace.IPCOf(g.PID) != trace.IPCOf(os.Getpid()) // all that is there is the family's
	for name, what := range map[string]string{"sem": "semaphores", "msg": "messages"} {
		all, err := read(name)
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			if apart || usable(&o) {
				return nil, refusal.New("remove them or detach the memory, or use POSIX ones", "System V %s %d, which it may use beside System V shared memory", what, o.ID)
			}
		}
	}
	list, err := read("shm")
	if err != nil {
		return nil, err
	}
	var all []state.Segment
	for _, o := range list {
		own := a.own[o.ID]
		switch {
		case own == 0 && !apart && (o.Attached > 0 || !g.related(o.Creator)):
			continue
		case own == 0:
			return nil, refusal.New("remove it, or stay attached to it", "System V shared memory %d, to which nobody is attached", o.ID)
		case o.Attached > own+a.copies[o.ID]:
			return nil, refusal.New(sysvRemedy, "System V shared memory %d, to which others are attached, too", o.ID)
		case o.Size > state.MaxSegment:
			return nil, refusal.New("use private memory for what is large", "System V shared memory %d of %d MB", o.ID, o.Size>>20)
		case o.UID != os.Geteuid() || o.GID != os.Getegid() || o.Maker != [2]int{o.UID, o.GID}:
			return nil, refusal.New(sysvRemedy, "System V shared memory %d, which another user made or has", o.ID)
		}
		s := state.Segment{ID: o.ID, Key: o.Key, Mode: o.Mode, Size: o.Size}
		if apart { // its /proc has the family's own numbers
			s.Creator = o.Creator
		} else if g.related(o.Creator) {
			s.Creator = g.idIn(o.Creator)
		}
		all = append(all, s)
	}
	return all, nil
}

// idIn gives the number that one of the family has for itself.
func (g *Target) idIn(pid int) int {
	if m := g.head().kin[pid]; m != nil {
		return m.idOf(pid)
	}
	return g.head().idOf(pid)
}

// usable tells what this user owns or made, or has been opened to others.
func usable(o *proc.SysV) bool {
	const others = 0o066
	user := os.Geteuid()
	return o.UID == user || o.Maker[0] == user || o.Mode&others != 0
}

// recordSysV notes the System V shared memory of the family, with its content.
func (st *stand) recordSysV(r *recorder) error {
	g := st.g
	apart := trace.IPCOf(g.PID) != trace.IPCOf(os.Getpid())
	has := slices.ContainsFunc(st.family.records, (*recorder).hasSysV)
	if r.state.Kin != nil || !has && !apart {
		return nil
	}
	var a attached
	var err error
	if has {
		if a, err = g.attachments(); err == nil {
			err = a.checkOthers()
		}
	}
	if err != nil {
		return err
	}
	read := readSysV
	if apart {
		read = func(name string) ([]proc.SysV, error) { return st.readSysV(r, name) }
	}
	if r.state.SysV, err = g.segments(a, read); err != nil {
		return err
	}
	if err := st.family.checkWhole(r.state.SysV); err != nil {
		return err
	}
	for i := range r.state.SysV {
		s := &r.state.SysV[i]
		if !slices.ContainsFunc(st.family.records, func(r *recorder) bool { return r.state.PID == s.Creator }) {
			s.Creator = 0
		}
		data, err := st.readSegment(r, s)
		if err != nil {
			return refusal.New(sysvRemedy, "System V shared memory %d, which cannot be read: %v", s.ID, err)
		}
		st.family.contents = append(st.family.contents, content{kind: state.KindSysV, name: strconv.Itoa(s.ID), data: data})
	}
	return nil
}

func (r *recorder) hasSysV() bool {
	return slices.ContainsFunc(r.maps, func(m proc.Mapping) bool { return m.OfSysV() })
}

// checkWhole refuses what is not attached whole.
func (f *family) checkWhole(all []state.Segment) error {
	size := func(id int) uint64 {
		i := slices.IndexFunc(all, func(s state.Segment) bool { return s.ID == id })
		if i < 0 {
			return 0
		}
		return all[i].Extent()
	}
	for _, r := range f.records {
		var regions []state.Region
		for i := range r.maps {
			region := regionOf(&r.maps[i])
			region.SysV = r.maps[i].OfSysV()
			regions = append(regions, region)
		}
		if _, err := state.Attachments(regions, size); err != nil {
			return r.g.named(refusal.New("attach and detach it as a whole", "%v", err))
		}
	}
	return nil
}

// readSysV reads a list of what there is in the namespace of the process, which opens it.
func (st *stand) readSysV(r *recorder, name string) (all []proc.SysV, err error) {
	err = st.inLeader(r, func(in *trace.Injector, s *trace.Scratch) error {
		if err := r.mem.Poke(append([]byte("/proc/sysvipc/"+name), 0), s.Addr); err != nil {
			return err
		}
		fd, err := in.Call(unix.SYS_OPEN, s.Addr, unix.O_RDONLY|unix.O_CLOEXEC)
		if err != nil {
			return fmt.Errorf("System V objects: %w", err)
		}
		here, err := st.g.Getfd(int(fd))
		if _, e := in.Call(unix.SYS_CLOSE, fd); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(here), name)
		defer f.Close()
		p := make([]byte, 0, pages.Size)
		for n := 1; n > 0 && err == nil; {
			p = slices.Grow(p, pages.Size)
			n, err = unix.Read(here, p[len(p):cap(p)])
			p = p[:len(p)+max(n, 0)]
		}
		if err == nil {
			all, err = proc.ParseSysV(p)
		}
		return err
	})
	return all, err
}

// readSegment has the first process attach to a segment for a moment: all of it is read, whatever is mapped.
func (st *stand) readSegment(r *recorder, s *state.Segment) ([]byte, error) {
	data := make([]byte, s.Size)
	err := st.inLeader(r, func(in *trace.Injector, _ *trace.Scratch) error {
		const readOnly = 0o10000 // SHM_RDONLY
		at, err := in.Call(unix.SYS_SHMAT, uint64(s.ID), 0, readOnly)
		if err != nil {
			return err
		}
		err = r.mem.Peek(data, at)
		if _, e := in.Call(unix.SYS_SHMDT, at); err == nil {
			err = e
		}
		return err
	})
	return data, err
}
