package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// A process is imaged with all that descend from it, its family, at one moment: all are stopped
// before the first is recorded, and none goes on before each has its copy. State shared by several
// processes, such as a pipe and its content, is recorded once.

// family is a process and those that descend from it, which stand still or are on the way there or back.
type family struct {
	stands   []*stand    // each after its parent
	records  []*recorder // of these
	living   []state.Kin // what stands[1:] are to each other
	ended    []state.Kin // those that have ended and are not waited for
	contents []content
	files    map[uint64]writtenFile // whose content is kept, by their inodes
	kept     int64                  // bytes of these
	mapped   bool                   // one of them is written to by a shared mapping
	known    *sameness
	copies   map[int]bool // their numbers
}

// has tells a process that stands.
func (f *family) has(pid int) bool {
	return slices.ContainsFunc(f.stands, func(s *stand) bool { return s.g.PID == pid })
}

// children lists those of a process, dead but unreaped ones too.
func (g *Target) children() ([]int, error) {
	tids, err := proc.Threads(g.PID)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, tid := range tids {
		p, err := os.ReadFile(g.Task(tid) + "/children")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended, or the kernel does not tell
		}
		if err != nil {
			return nil, fmt.Errorf("child processes: %w", err)
		}
		for _, word := range bytes.Fields(p) {
			pid, _ := strconv.Atoi(string(word))
			all = append(all, pid)
		}
	}
	return all, nil
}

// member gives the Target of a process that descends from this one.
func (g *Target) member(pid int) (*Target, error) {
	if m := g.kin[pid]; m != nil {
		if !m.Ended() {
			return m, nil
		}
		m.Close()
		delete(g.kin, pid)
	}
	p, err := trace.OpenProcess(pid)
	if err != nil {
		return nil, err
	}
	m := &Target{Process: p, agent: g.agent, rank: g.rank, oob: -1, stdio: g.stdio, first: g}
	if g.kin == nil {
		g.kin = map[int]*Target{}
	}
	g.kin[pid] = m
	return m, nil
}

// lookForStream finds out whether a process that descends from the first has the stream to the agent from that.
func (g *Target) lookForStream() {
	if g.first == nil {
		return
	}
	if g.oob = -1; g.first.oob >= 0 {
		own, _ := os.Readlink(fdPath(g.first.PID, g.first.oob))
		if link, err := os.Readlink(fdPath(g.PID, g.first.oob)); err == nil && link == own {
			g.oob = g.first.oob
		}
	}
}

// forgetEnded closes those of the family that have ended.
func (g *Target) forgetEnded() {
	for pid, m := range g.kin {
		if m.Ended() {
			m.Close()
			delete(g.kin, pid)
		}
	}
}

// head is the first of the family.
func (g *Target) head() *Target {
	if g.first != nil {
		return g.first
	}
	return g
}

// related tells the processes of the family, be they born since that was looked at.
func (g *Target) related(pid int) bool {
	for pid > 1 {
		if g.head().PID == pid || g.head().kin[pid] != nil {
			return true
		}
		s, err := proc.Parsed(pid, "stat", procfs.ParseStat)
		if err != nil {
			return false
		}
		pid = s.PPID
	}
	return false
}

// outside tells a process that is none of the family, and lives.
func (g *Target) outside(pid int) bool {
	if g.related(pid) {
		return false
	}
	s, err := proc.Parsed(pid, "stat", procfs.ParseStat)
	return err == nil && !s.Ending()
}

// checkFamily refuses what can be seen from outside of the processes that descend from this one.
func (g *Target) checkFamily() error {
	g.lookForPlace()
	g.forgetEnded()
	for _, m := range g.kin {
		m.looked = false
	}
	all := []*Target{g}
	var living, ended []state.Kin
	for i := 0; i < len(all); i++ {
		pids, err := all[i].children()
		if err != nil && (i == 0 || !all[i].Ended()) {
			return all[i].named(err)
		}
		for _, pid := range pids {
			m, k, err := g.meet(pid, all[i])
			switch {
			case err != nil && (errors.Is(err, refusal.ErrRefused) || m != nil && !m.Ended()):
				return err
			case err != nil: // it has just ended
			case m == nil:
				ended = append(ended, k)
			default:
				all, living = append(all, m), append(living, k)
			}
		}
	}
	for pid, m := range g.kin {
		if !slices.Contains(all[1:], m) { // it has left the family
			m.Close()
			delete(g.kin, pid)
		}
	}
	if len(living) == 0 && len(ended) == 0 {
		return nil
	}
	if err := trace.SameIDs(); err != nil {
		k := slices.Concat(living, ended)[0]
		return refusal.New("run commands to their end between checkpoints, permit user namespaces, or use -cr=self",
			"it has a child process %d (%s), and processes cannot have the ids again that they had: %v", k.ID, k.Name, err)
	}
	if _, gone, _ := workingDir(g.PID); gone {
		return refusal.New("change to another folder", "it has child processes, and its working directory was deleted")
	}
	for _, m := range all[1:] {
		err := m.checkOne()
		if err != nil && !m.Ended() {
			return m.named(err)
		}
		m.looked = err == nil
	}
	err := g.checkRelated(living, ended)
	if err != nil && slices.ContainsFunc(all[1:], (*Target).Ended) {
		return nil // whose child is whose has just changed; the standstill tells
	}
	return err
}

// named adds the process of the family to an error.
func (g *Target) named(err error) error {
	if err == nil || g.first == nil {
		return err
	}
	name := "?"
	if s, e := proc.Parsed(g.PID, "stat", procfs.ParseStat); e == nil {
		name = s.Comm
	}
	return fmt.Errorf("its child process %d (%s): %w", g.idOf(g.PID), name, err)
}

// checkRelated refuses sessions and groups that cannot be made again.
func (g *Target) checkRelated(living, ended []state.Kin) error {
	if err := state.Related(g.idOf(g.PID), living, ended); err != nil {
		return refusal.New("end it before a checkpoint, or let the first process of the session or group live", "%v", err)
	}
	return nil
}

// meet looks at a child of one of the family: it gives its Target, or none if it has ended, and what it is to others.
func (g *Target) meet(pid int, parent *Target) (*Target, state.Kin, error) {
	var k state.Kin
	s, err := proc.Parsed(pid, "stat", procfs.ParseStat)
	if err != nil {
		return nil, k, err
	}
	status, err := proc.Parsed(pid, "status", proc.ParseStatus)
	if err != nil {
		return nil, k, err
	}
	parent.lookForPlace()
	k = state.Kin{ID: pid, Parent: parent.idOf(parent.PID), Team: status.Team, Session: status.Session, Sends: s.Sends, Name: s.Comm}
	if parent.placed {
		k.ID = status.Inner
	}
	own, err := proc.Parsed(g.PID, "status", proc.ParseStatus)
	if err != nil {
		return nil, k, err
	}
	if k.Session == own.Session {
		k.Session = 0
	}
	if first := g.idOf(g.PID); k.Team == own.Team && own.Team != first {
		k.Team = 0
	}
	if tids, _ := proc.Threads(pid); s.State == 'Z' && len(tids) <= 1 {
		k.Status = s.Exit
		return nil, k, nil
	}
	m, err := g.member(pid)
	switch {
	case err != nil:
	case s.State == 'Z' && m.Ended():
		err = fmt.Errorf("child process %d: %w", pid, whole.ErrDied) // just ending
	case s.State == 'Z':
		err = fmt.Errorf("its child process %d (%s): %w", k.ID, k.Name, trace.ErrLeaderEnded)
	case s.Sends != int(unix.SIGCHLD): // exec forgets it, and a restore executes the program
		err = refusal.New("start it by fork, vfork or posix_spawn", "its child process %d (%s) was made by clone with the exit signal %d", k.ID, k.Name, s.Sends)
	}
	return m, k, err
}

// stopFamily stops a process and all that descend from it. After an error all of them run again.
func (g *Target) stopFamily(th *trace.Thread) (*family, error) {
	f := &family{known: newSameness(), copies: map[int]bool{}}
	err := f.stop(g, th)
	for grown := true; err == nil && grown; {
		grown, err = f.grow(th)
	}
	if err == nil && len(f.stands)+len(f.ended) > 1 {
		err = g.checkRelated(f.living, f.ended)
	}
	if err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// stop stops one process.
func (f *family) stop(g *Target, th *trace.Thread) error {
	st := &stand{g: g, family: f, Standstill: trace.Standstill{Process: &g.Process, Thread: th}}
	if err := st.StopAll(); err != nil {
		return err
	}
	f.stands = append(f.stands, st)
	return nil
}

// grow stops children of those that stand, and tells whether there were any that ran: until there are
// none, more may have been born.
func (f *family) grow(th *trace.Thread) (grown bool, err error) {
	g, before := f.stands[0].g, len(f.ended)
	f.ended = nil
	for i := 0; i < len(f.stands); i++ {
		parent := f.stands[i].g
		pids, err := parent.children()
		if err != nil {
			return false, err
		}
		for _, pid := range pids {
			if f.has(pid) {
				continue
			}
			m, k, err := g.meet(pid, parent)
			switch {
			case err != nil:
				return false, endsMeanwhile(m, err)
			case m == nil:
				f.ended = append(f.ended, k)
				continue
			}
			if err = m.sharesNothing(parent); err == nil && !m.looked {
				err = m.checkOne() // it was born since the family was looked at
			}
			if err == nil {
				err = f.stop(m, th)
			}
			if err == nil && exeOf(m.PID) != m.exe {
				m.looked = false
				err = fmt.Errorf("%w: a child process has just executed another program", trace.ErrBusy)
			}
			if err != nil {
				return false, endsMeanwhile(m, m.named(err))
			}
			k.Name, k.Stopped = "", f.stands[len(f.stands)-1].Signal
			f.living = append(f.living, k)
			grown = true
		}
	}
	return grown || len(f.ended) != before, nil // the children of one that has just ended are another's by now
}

// endsMeanwhile has the capture tried again where an error comes from a child's end.
func endsMeanwhile(m *Target, err error) error {
	if !errors.Is(err, trace.ErrBusy) && (m == nil && !errors.Is(err, refusal.ErrRefused) || m != nil && m.Ended() || errors.Is(err, whole.ErrDied)) {
		return fmt.Errorf("%w: a child process is just ending: %v", trace.ErrBusy, err)
	}
	return err
}

// sharesNothing refuses a child that has memory, descriptors or its folder in common with its parent,
// as it has between vfork and exec.
func (g *Target) sharesNothing(parent *Target) error {
	const vm, files, fs = 1, 2, 3 // KCMP_...
	for what, name := range map[uintptr]string{vm: "memory", files: "descriptors", fs: "a working directory"} {
		r, _, e := unix.RawSyscall6(unix.SYS_KCMP, uintptr(parent.PID), uintptr(g.PID), what, 0, 0, 0)
		if e != 0 || r != 0 {
			continue
		}
		if what == vm {
			return fmt.Errorf("%w: a child process shares memory with its parent, as one does that is about to execute a program", trace.ErrBusy)
		}
		return refusal.New("do without CLONE_FILES and CLONE_FS", "it has %s in common with its parent", name)
	}
	return nil
}

// release lets all go on, and gives for how long the first stood.
func (f *family) release() (took time.Duration) {
	for i := len(f.stands) - 1; i >= 0; i-- {
		took = f.stands[i].Release()
	}
	f.stands = nil
	return took
}

// record records the state of the family that is known only while it stands.
func (f *family) record(patient bool, opt whole.CaptureOptions) error {
	for _, st := range f.stands {
		g := st.g
		r := &recorder{g: g, family: f, state: &state.State{PID: g.idOf(g.PID), Rank: g.rank, OOB: g.oob}, runtimes: g.runtimes, patient: patient, given: opt.CPUs}
		f.records = append(f.records, r)
		if i := len(f.records) - 2; i >= 0 {
			r.state.Kin = &f.living[i]
		}
	}
	steps := []func(st *stand, r *recorder) error{
		(*stand).recordMemory, (*stand).recordQueues, (*stand).recordThreads, (*stand).recordChecks, (*stand).recordFiles, (*stand).recordPipes, (*stand).recordTerminals, (*stand).recordSockets,
		(*stand).recordWatches, (*stand).recordWritten, (*stand).recordInPlace, (*stand).recordKept, (*stand).recordShared, (*stand).recordSysV, (*stand).recordRest, (*stand).recordAsked, (*stand).recordSeen,
	}
	for _, step := range steps {
		for i, st := range f.stands {
			if err := step(st, f.records[i]); err != nil {
				return st.g.named(err)
			}
		}
	}
	first := f.records[0].state
	first.Ended = f.ended
	for _, k := range f.living {
		first.Family = append(first.Family, k.ID)
	}
	return nil
}

// recordSeen records whether the parent of a stopped process has seen the stop.
func (st *stand) recordSeen(r *recorder) error {
	for i := range st.family.living {
		k := &st.family.living[i]
		if k.Stopped == 0 || k.Parent != r.state.PID {
			continue
		}
		err := st.inLeader(r, func(in *trace.Injector, s *trace.Scratch) error {
			const how = unix.WSTOPPED | unix.WNOHANG | unix.WNOWAIT
			var p [4]byte
			if err := r.mem.Poke(p[:], s.Addr); err != nil {
				return err
			}
			if _, err := in.Call(unix.SYS_WAITID, unix.P_PID, uint64(k.ID), s.Addr, how, 0); err != nil {
				return fmt.Errorf("waitid: %w", err)
			}
			err := s.Read(p[:])
			k.Unseen = le.Uint32(p[:]) != 0
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// askDeath asks which signal the process gets at its parent's end. No copy tells.
func (r *recorder) askDeath(in *trace.Injector, s *trace.Scratch) error {
	if r.state.Kin == nil {
		return nil // its parent is the agent, who decides
	}
	if _, err := in.Call(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, s.Addr); err != nil {
		return fmt.Errorf("PR_GET_PDEATHSIG: %w", err)
	}
	var p [4]byte
	err := s.Read(p[:])
	r.state.Kin.Death = int(le.Uint32(p[:]))
	return err
}

// copyAll makes a copy of each. Where one cannot be made all stand still until the image is written.
func (f *family) copyAll(th *trace.Thread, opt whole.CaptureOptions) (all []*captured, err error) {
	defer func() {
		if e := f.reapers(true); err == nil {
			err = e
		}
		if err != nil || slices.ContainsFunc(all, func(c *captured) bool { return c.pid == 0 }) {
			for _, c := range all {
				c.dropCopy()
			}
		}
	}()
	if err := f.reapers(false); err != nil {
		return nil, err
	}
	for i, st := range f.stands {
		c := &captured{g: st.g, th: th, recorder: f.records[i]}
		all = append(all, c)
		err := st.inLeader(c.recorder, func(in *trace.Injector, s *trace.Scratch) error {
			// The copy gets the memory that was borrowed as it was.
			if err := s.GiveBack(); err != nil {
				return err
			}
			if i == 0 {
				st.scan(c.recorder, in, opt)
			}
			if opt.NoFork {
				return nil
			}
			if err := c.shareApart(in); err != nil {
				return err
			}
			return errors.Join(st.fork(c, in), c.withholdApart(in))
		})
		if c.pid != 0 {
			f.copies[c.pid] = true
		}
		if err != nil {
			return all, st.g.named(err)
		}
	}
	return all, nil
}

// reapers has those of the family that take orphans, take none while copies are made, which are such.
func (f *family) reapers(on bool) error {
	var errs []error
	var set uint64
	if on {
		set = 1
	}
	for i, st := range f.stands {
		if len(f.stands) == 1 || !f.records[i].state.Subreaper {
			continue
		}
		err := st.inLeader(f.records[i], func(in *trace.Injector, _ *trace.Scratch) error {
			_, err := in.Call(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, set)
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("PR_SET_CHILD_SUBREAPER: %w", err))
		}
	}
	return errors.Join(errs...)
}
