package capture

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/dirty"
	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// tries is how often a capture stops the process again because a thread stood
// where it cannot be imaged; after patience of them it no longer insists on what
// matters only on another kernel.
const (
	tries    = 20
	patience = 10
)

// Capture makes a copy of the process as it is now, and lets it go on. Without an
// error the copy has to be released. After an error the process is as it was.
func (g *Target) Capture(opt whole.CaptureOptions) (whole.Copy, error) {
	c, err := g.capture(opt)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (g *Target) capture(opt whole.CaptureOptions) (*captured, error) {
	if err := g.check(); err != nil {
		return nil, g.explain(err)
	}
	var paused time.Duration
	var letting time.Time // since when a thread is waited for that would not stop before
	for try := 1; ; try++ {
		var c *captured
		var err error
		g.agent.stands <- struct{}{}
		over := sync.OnceFunc(func() { <-g.agent.stands })
		th := g.agent.threads.Pick()
		open := th.Do(func() { c, err = g.captureOn(th, opt, try <= patience, &paused, over) })
		over()
		if !open {
			return nil, trace.ErrClosed
		}
		if err == nil {
			return c, nil
		}
		if errors.Is(err, trace.ErrLettingGo) { // nothing was tried: it has to be given processor time first
			if letting.IsZero() {
				letting = time.Now()
			}
			if time.Since(letting) < trace.StopLimit {
				try--
				time.Sleep(5 * time.Millisecond)
				continue
			}
		}
		if !errors.Is(err, trace.ErrBusy) || try == tries {
			return nil, g.explain(err)
		}
		time.Sleep(time.Duration(try) * 200 * time.Microsecond)
	}
}

// recorder gathers the state of the process that is known only while it stands still.
type recorder struct {
	g        *Target
	state    *state.State
	maps     []proc.Mapping
	mem      *trace.Memory
	text     uint64       // address of a syscall instruction
	vdso     pages.Extent // where the kernel's code lies
	runtimes runtimes.Set
	patient  bool
	family   *family
	changed  *dirty.Changes // what changed since the base, nil for a full image
	base     int
	guards   []pages.Extent
	note     string
	sync     []int  // descriptors of the files that the program writes to
	given    []byte // processors that the agent gave to the process, nil: its own
}

func (r *recorder) close() {
	r.mem.Close()
	for _, fd := range r.sync {
		unix.Close(fd)
	}
	r.sync = nil
}

// content is what a pipe or a deleted file holds.
type content struct {
	kind, name string
	inode      uint64
	data       []byte
}

func (r *recorder) has(kind string, inode uint64) bool {
	for _, c := range r.family.contents {
		if c.kind == kind && c.inode == inode {
			return true
		}
	}
	return false
}

// stand is a target that stands still.
type stand struct {
	trace.Standstill
	g      *Target
	family *family
}

// captureOn does one try, on th. paused sums up for how long the process stood;
// over is called when it stands no longer.
func (g *Target) captureOn(th *trace.Thread, opt whole.CaptureOptions, patient bool, paused *time.Duration, over func()) (*captured, error) {
	f, err := g.stopFamily(th)
	if err != nil {
		return nil, err
	}
	c, err := f.capture(th, opt, patient)
	if err == nil && opt.Stands != nil {
		opt.Stands()
	}
	if err == nil && c.pid == 0 {
		if err = c.each((*captured).stay); err == nil {
			return c, nil // it stands until Release
		}
	}
	*paused += f.release()
	over()
	if c != nil {
		c.st = nil // it stands no longer
	}
	if err == nil {
		c.pause = *paused
		err = c.each((*captured).prepare)
	}
	switch {
	case err == nil:
		return c, nil
	case c != nil:
		c.Release()
	default:
		f.close()
	}
	if errors.Is(err, whole.ErrDied) && !g.Ended() {
		err = endsMeanwhile(nil, err)
	}
	return nil, err
}

// close gives up what was recorded.
func (f *family) close() {
	for _, r := range f.records {
		r.close()
	}
}

// capture records the family and makes the copies. All are still stopped when it returns.
func (f *family) capture(th *trace.Thread, opt whole.CaptureOptions, patient bool) (*captured, error) {
	if err := f.record(patient, opt); err != nil {
		return nil, err
	}
	all, err := f.copyAll(th, opt)
	if err != nil {
		return nil, err
	}
	for i, c := range all {
		c.st = f.stands[i]
	}
	all[0].kin = all[1:]
	return all[0], nil
}

// recordAsked records state that only the process itself can ask for, not a copy of it.
func (st *stand) recordAsked(r *recorder) error {
	return st.inLeader(r, func(in *trace.Injector, s *trace.Scratch) error {
		return errors.Join(st.askTimers(r, in, s), r.askSubreaper(in, s), r.askDeath(in, s))
	})
}

// recordMemory opens the memory and records its layout.
func (st *stand) recordMemory(r *recorder) error {
	var err error
	if r.maps, err = proc.Parsed(st.g.PID, "maps", proc.ParseMaps); err != nil {
		return err
	}
	if err := checkMaps(r.maps); err != nil {
		return err
	}
	if r.mem, err = trace.OpenMemory(st.g.PID); err != nil {
		return err
	}
	for _, m := range r.maps {
		if m.Path == "[vdso]" {
			r.vdso = pages.Extent{Start: m.Start, End: m.End}
		}
	}
	r.text, err = st.g.findText(r.mem, r.maps)
	return err
}

// findText finds a syscall instruction, most often where it was the last time.
func (g *Target) findText(m *trace.Memory, maps []proc.Mapping) (uint64, error) {
	var p [2]byte
	if g.text != 0 && m.Peek(p[:], g.text) == nil && bytes.Equal(p[:], trace.SyscallInsn) {
		return g.text, nil
	}
	text, err := trace.FindSyscall(m, maps)
	if err == nil {
		g.text = text
	}
	return text, err
}

// recordChecks looks again at what may have changed since check.
func (st *stand) recordChecks(*recorder) error { return st.g.checkTimers() }

func (st *stand) recordRest(r *recorder) error {
	var err error
	if st.g.first == nil {
		if r.state.Unread, err = st.g.unread(); err != nil {
			return err
		}
	}
	if r.state.Shared, err = trace.Pending(st.g.PID, true); err != nil {
		return fmt.Errorf("pending signals: %w", err)
	}
	r.state.OOMAdj = st.g.oomAdj
	r.state.Mono, r.state.Boottime = now(unix.CLOCK_MONOTONIC), now(unix.CLOCK_BOOTTIME)
	return nil
}

// inLeader runs f with the main thread ready to make system calls.
func (st *stand) inLeader(r *recorder, f func(*trace.Injector, *trace.Scratch) error) error {
	in, err := trace.Begin(st.g.PID, r.text)
	if err != nil {
		return err
	}
	s, err := trace.Borrow(r.mem, &in.Own)
	if err == nil {
		err = f(in, s)
		if e := s.GiveBack(); err == nil {
			err = e
		}
	}
	if e := in.End(); err == nil {
		err = e
	}
	return err
}

// scan asks which pages have not changed since the base, and has changes
// followed from now on. Where that fails the image is full.
func (st *stand) scan(r *recorder, in *trace.Injector, opt whole.CaptureOptions) {
	if !opt.Track && opt.Base == 0 {
		return
	}
	if len(st.family.stands) > 1 {
		if opt.Base > 0 {
			r.addNote("full image: it has child processes")
		}
		return
	}
	g := st.g
	g.mu.Lock()
	defer g.mu.Unlock()
	changed, err := g.track.Scan(dirty.Process{PID: g.PID, Pidfd: g.Pidfd, Maps: r.maps, Syscall: in.Call}, opt.Base, opt.Seq)
	if changed != nil && opt.Base > 0 {
		r.changed, r.base = changed, opt.Base
	} else if err != nil && opt.Base > 0 {
		r.addNote("full image: " + err.Error())
	}
}

func (r *recorder) addNote(s string) {
	if r.note != "" {
		r.note += "; "
	}
	r.note += s
}

// fork makes the copy: a child of this process, stopped and traced from its
// first moment. The program itself sees neither a child nor a signal. If no
// copy can be made, the process stands still until its image is written.
func (st *stand) fork(c *captured, in *trace.Injector) error {
	born := in.Fork
	if st.g.first != nil {
		born = in.ForkAway
	}
	pid, err := born()
	c.pid = pid
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EAGAIN):
		c.addNote(fmt.Sprintf("imaged while it stood still: no copy could be made (%v)", err))
		return nil
	case errors.Is(err, whole.ErrDied):
		st.dropOrphans()
		return err
	}
	return fmt.Errorf("copying the process: %w", err)
}

// dropOrphans ends a copy that was born to a process that was killed before it
// could tell its child's number. Its stop was not seen yet.
func (st *stand) dropOrphans() {
	var b trace.Backoff
	for {
		pid, err := trace.TakeAnyStop()
		if pid != 0 && st.isOrphan(pid) {
			unix.Kill(pid, unix.SIGKILL)
			trace.Reap(pid, trace.KillLimit)
			return
		}
		if err != nil && !errors.Is(err, unix.EINTR) || !b.Sleep(20*time.Millisecond) {
			return
		}
	}
}

// isOrphan tells a copy of the process from all else that stops before the calling
// thread: only a copy is traced by this thread and born since the process stands, while
// the thread did nothing else. Its parent is this process, or the first one of a place.
func (st *stand) isOrphan(pid int) bool {
	const tick = int64(time.Second / 100) // of /proc
	s, err := proc.Parsed(pid, "stat", procfs.ParseStat)
	if err != nil || st.family.has(pid) || st.family.copies[pid] {
		return false
	}
	begun := now(unix.CLOCK_BOOTTIME) - int64(time.Since(st.Since))
	status, err := proc.Parsed(pid, "status", proc.ParseStatus)
	return err == nil && status.Tracer == unix.Gettid() && status.Group == pid && int64(s.Start) >= begun/tick
}
