package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// Place gives a place in which no process has one of the ids, and keeps these for the
// caller. With alone nothing else is there, or will be.
func (t *Threads) Place(ids []int, alone bool) (*Place, error) {
	l := &t.places
	l.making.Lock()
	defer l.making.Unlock()
	if p, err := l.find(ids, alone); p != nil || err != nil {
		return p, err
	}
	l.buryLate(0)
	p, err := t.newPlace()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.err = err
		return nil, err
	}
	p.alone = alone
	p.keep(ids)
	l.all, l.end = append(l.all, p), l.endAll
	return p, nil
}

// find gives a place that there is, nil if there is none for these ids, or an error if there can
// be none.
func (l *places) find(ids []int, alone bool) (*Place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		if !alone && !p.alone && p.keep(ids) {
			return p, nil
		}
	}
	return nil, l.err
}

// PlaceOf gives the place that a process is in, nil if it is in none.
func (t *Threads) PlaceOf(pid int) *Place {
	t.places.mu.Lock()
	defer t.places.mu.Unlock()
	if len(t.places.all) == 0 {
		return nil
	}
	space := spaceOf(pid)
	for _, p := range t.places.all {
		if p.space == space {
			return p
		}
	}
	return nil
}

func (l *places) endAll() {
	l.mu.Lock()
	all := l.all
	l.all = nil
	l.mu.Unlock()
	for _, p := range all {
		p.kill()
		l.bury(p, reapLimit)
	}
	l.buryLate(reapLimit)
}

// reapLimit is how long the end of a place is awaited. What is in it and was not reaped by its parent holds that up.
const reapLimit = time.Second

// bury reaps a place that was killed. One that takes too long is late, and its turn comes again.
func (l *places) bury(p *Place, limit time.Duration) {
	err := error(nil)
	p.thread.Do(func() { err = Reap(p.PID, limit) })
	if err != nil {
		l.mu.Lock()
		l.late = append(l.late, p)
		l.mu.Unlock()
		return
	}
	unix.Close(p.pidfd)
}

func (l *places) buryLate(limit time.Duration) {
	l.mu.Lock()
	late := l.late
	l.late = nil
	l.mu.Unlock()
	for _, p := range late {
		l.bury(p, limit)
	}
}

func spaceOf(pid int) string { return namespace(pid, "pid") }

// IPCOf gives what /proc calls the namespace that has the System V objects of a process.
func IPCOf(pid int) string { return namespace(pid, "ipc") }

// MountsOf gives what /proc calls the namespace that has the mounts of a process.
func MountsOf(pid int) string { return namespace(pid, "mnt") }

func namespace(pid int, kind string) string {
	link, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/" + kind)
	return link
}

// toCome stands for a process that is still to be made.
const toCome = -1

// keep sets ids aside, unless a process has one of them.
func (p *Place) keep(ids []int) bool {
	gone := map[int]bool{}
	for _, id := range ids {
		pid, ok := p.used[id]
		if !ok || gone[pid] {
			continue
		}
		if pid == toCome {
			return false
		}
		if _, err := os.Lstat("/proc/" + strconv.Itoa(pid)); err == nil {
			return false
		}
		gone[pid] = true
	}
	for _, id := range ids {
		p.used[id] = toCome
	}
	return true
}

// Belong says whose ids are, pid 0 that they are nobody's.
func (t *Threads) Belong(p *Place, ids []int, pid int) {
	t.places.mu.Lock()
	defer t.places.mu.Unlock()
	for _, id := range ids {
		if pid == 0 {
			delete(p.used, id)
		} else {
			p.used[id] = pid
		}
	}
}

// EndPlace ends a place, with all that is in it.
func (t *Threads) EndPlace(p *Place) {
	l := &t.places
	l.mu.Lock()
	i := slices.Index(l.all, p)
	if i >= 0 {
		l.all = slices.Delete(l.all, i, i+1)
	}
	l.mu.Unlock()
	if i >= 0 {
		p.kill()
		l.bury(p, reapLimit)
	}
}

// kill kills the place, with all that is in it.
func (p *Place) kill() { unix.Kill(p.PID, unix.SIGKILL) }

// newPlace makes one.
func (t *Threads) newPlace() (p *Place, err error) {
	p = &Place{User: os.Geteuid() != 0, pidfd: -1, thread: t.Pick(), used: map[int]int{}}
	if !p.thread.Do(func() { err = p.begin() }) {
		err = ErrClosed
	}
	if err != nil {
		if p.PID != 0 {
			p.kill()
			t.places.bury(p, reapLimit)
		}
		return nil, fmt.Errorf("namespaces for processes that keep their ids: %w", err)
	}
	return p, nil
}

// begin starts the first process and leaves it standing.
func (p *Place) begin() error {
	if err := p.start(); err != nil {
		return err
	}
	if s, err := WaitStop(p.PID, 10*time.Second); err != nil || s.Exited {
		return errors.Join(err, fmt.Errorf("their first process %v", s))
	}
	if err := SetOptions(p.PID, TraceOptions); err != nil {
		return err
	}
	a, err := newbornAt(p.PID)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := p.furnish(a); err != nil {
		return err
	}
	p.space = spaceOf(p.PID)
	p.pidfd, err = unix.PidfdOpen(p.PID, 0)
	return err
}

func (p *Place) start() (err error) {
	attr := &syscall.SysProcAttr{Ptrace: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if p.User {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // to mount /proc
	}
	p.PID, err = syscall.ForkExec("/proc/self/exe", []string{"gorun"}, &syscall.ProcAttr{Sys: attr})
	return err
}

// furnish gives the place its /proc, and takes from the first process what it does not need.
func (p *Place) furnish(a *newborn) error {
	const ignore = 1 // SIG_IGN: children need not be waited for
	action := binary.LittleEndian.AppendUint64(nil, ignore)
	root, procfs, slash := a.text("/proc"), a.text("proc"), a.text("/")
	for _, c := range []struct {
		what string
		nr   uint64
		args []uint64
	}{
		{"mounts of their own", unix.SYS_MOUNT, []uint64{0, slash, 0, unix.MS_REC | unix.MS_SLAVE, 0}},
		{"a /proc of their own", unix.SYS_MOUNT, []uint64{procfs, root, procfs, unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, 0}},
		{"closing", unix.SYS_CLOSE_RANGE, []uint64{0, 1<<32 - 1, 0}},
		{"ends of children", unix.SYS_RT_SIGACTION, []uint64{uint64(unix.SIGCHLD), a.put(append(action, make([]byte, 24)...)), 0, 8}},
	} {
		if a.err == nil {
			if _, err := a.in.Call(c.nr, c.args...); err != nil {
				return fmt.Errorf("%s: %w", c.what, err)
			}
		}
	}
	if p.User && a.err == nil {
		head := a.put(NoCapabilities)
		if _, err := a.in.Call(unix.SYS_CAPSET, head, head+8); err != nil {
			return fmt.Errorf("giving up capabilities: %w", err)
		}
	}
	return a.err
}

// NoCapabilities is what capset takes to give up all: a header for the caller, and behind it, 8
// bytes on, the empty sets.
var NoCapabilities = append(binary.LittleEndian.AppendUint32(nil, unix.LINUX_CAPABILITY_VERSION_3), make([]byte, 4+24)...)

// newborn is a process that stands before its first instruction, with room on its stack.
type newborn struct {
	in  *Injector
	mem *Memory
	at  uint64
	err error // of put
}

func newbornAt(pid int) (*newborn, error) {
	mem, err := OpenMemory(pid)
	if err != nil {
		return nil, err
	}
	a := &newborn{mem: mem}
	maps, err := proc.Parsed(pid, "maps", proc.ParseMaps)
	var text uint64
	if err == nil {
		text, err = FindSyscall(mem, maps)
	}
	if err == nil {
		a.in, err = Begin(pid, text)
	}
	if err != nil {
		mem.Close()
		return nil, err
	}
	a.at = a.in.Own.Rsp &^ 15
	return a, nil
}

func (a *newborn) Close() { a.mem.Close() }

// put writes p below what is there, and gives its address.
func (a *newborn) put(p []byte) uint64 {
	a.at = (a.at - uint64(len(p))) &^ 15
	if err := a.mem.Poke(p, a.at); a.err == nil {
		a.err = err
	}
	return a.at
}

func (a *newborn) text(s string) uint64 { return a.put(append([]byte(s), 0)) }

// CloneArgs is what clone3 takes to make a thread or process with a certain id. The word at
// IDPointer is to point to the id, which lies behind, at IDAt.
func CloneArgs(flags uint64, id int) []byte {
	args := make([]byte, IDAt+8)
	binary.LittleEndian.PutUint64(args, flags)
	binary.LittleEndian.PutUint64(args[IDPointer+8:], 1)
	binary.LittleEndian.PutUint32(args[IDAt:], uint32(id))
	return args
}

// In struct clone_args.
const (
	CloneArgsSize = 88
	IDPointer     = 64
	IDAt          = CloneArgsSize
)

// Bear has h, a process that stands before its first instruction and has the place's Descriptor as
// fd, make a process in the place that is like it, works in dir, and has an id of its own choice there, and what it is to
// have for itself. h is ended. The new one is a child of this process, traced by the calling thread, and its stop
// is still to be waited for.
func (p *Place) Bear(h, fd, id int, dir string, own Spaces) (pid int, err error) {
	if err := SetOptions(h, TraceOptions); err != nil {
		return 0, fmt.Errorf("tracing the new process: %w", err)
	}
	a, err := newbornAt(h)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	spaces := uint64(unix.CLONE_NEWPID | unix.CLONE_NEWNS)
	if p.User {
		spaces |= unix.CLONE_NEWUSER
	}
	if _, err := a.in.Call(unix.SYS_SETNS, uint64(fd), spaces); err != nil {
		return 0, fmt.Errorf("entering the namespaces of restored processes: %w", err)
	}
	if err := p.separate(h, a, own); err != nil {
		return 0, err
	}
	if _, err := a.in.Call(unix.SYS_CHDIR, a.text(dir)); err != nil || a.err != nil {
		return 0, fmt.Errorf("changing to %s: %w", dir, errors.Join(err, a.err))
	}
	args := CloneArgs(unix.CLONE_PARENT|unix.CLONE_PTRACE, id)
	at := (a.at - uint64(len(args))) &^ 15
	binary.LittleEndian.PutUint64(args[IDPointer:], at+IDAt)
	if a.at = at + uint64(len(args)); a.put(args) != at || a.err != nil {
		return 0, fmt.Errorf("memory in the new process: %w", a.err)
	}
	var n uint64
	err = WhileTaken(func() (err error) {
		n, err = a.in.Call(unix.SYS_CLONE3, at, CloneArgsSize)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("a process with the id %d: %w", id, err)
	}
	if !sameRoot(int(n)) {
		return int(n), errors.New("this process has another root folder than its namespace of mounts")
	}
	unix.Kill(h, unix.SIGKILL)
	if err := Reap(h, KillLimit); err != nil {
		return int(n), err
	}
	return int(n), unix.Setpgid(int(n), int(n))
}

// separate has h leave namespaces of the place.
func (p *Place) separate(h int, a *newborn, own Spaces) error {
	if own.SysV {
		if _, err := a.in.Call(unix.SYS_UNSHARE, unix.CLONE_NEWIPC); err != nil {
			return fmt.Errorf("a namespace for System V objects: %w", err)
		}
		p.spaces.Store(IPCOf(h), true)
	}
	if own.Terminals {
		if _, err := a.in.Call(unix.SYS_UNSHARE, unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("a namespace for terminals: %w", err)
		}
		const options = "newinstance,ptmxmode=0666,mode=0620"
		kind := a.text("devpts")
		if _, err := a.in.Call(unix.SYS_MOUNT, kind, a.text(Terminals), kind, unix.MS_NOSUID|unix.MS_NOEXEC, a.text(options)); err != nil {
			return fmt.Errorf("terminals of their own: %w", err)
		}
		p.spaces.Store(MountsOf(h), true)
	}
	return a.err
}

// Terminals is the folder of pseudo-terminals.
const Terminals = "/dev/pts"

// WhileTaken calls f again while an id is taken: the kernel gives it back a moment after the parent of who
// had it was told of the end.
func WhileTaken(f func() error) error {
	var b Backoff
	for {
		if err := f(); !errors.Is(err, unix.EEXIST) || !b.Sleep(StopLimit) {
			return err
		}
	}
}

// Descriptor is what Bear needs in the process.
func (p *Place) Descriptor() int { return p.pidfd }

func sameRoot(pid int) bool {
	here, err1 := os.Stat("/")
	there, err2 := os.Stat("/proc/" + strconv.Itoa(pid) + "/root/")
	return err1 == nil && err2 == nil && os.SameFile(here, there)
}

// SameIDs says why restored processes cannot have the ids that they had, nil if they can. The
// first call tries it.
func SameIDs() error { return sameIDs() }

var sameIDs = sync.OnceValue(func() error { return tryPlace(Spaces{}, func(*newborn) error { return nil }) })

// SameSysV says why restored processes cannot have System V shared memory with the ids that it had, nil if they
// can. The first call tries it.
func SameSysV() error { return sameSysV() }

var sameSysV = sync.OnceValue(func() error {
	return tryPlace(Spaces{SysV: true}, func(a *newborn) error { return a.opens(NextSegment, unix.O_WRONLY) })
})

// SameTerminals says why restored processes cannot have pseudo-terminals with the numbers that they had, nil if they
// can. The first call tries it.
func SameTerminals() error { return sameTerminals() }

var sameTerminals = sync.OnceValue(func() error {
	return tryPlace(Spaces{Terminals: true}, func(a *newborn) error { return a.opens("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY) })
})

// opens has the process open a file.
func (a *newborn) opens(path string, flags uint64) error {
	if _, err := a.in.Call(unix.SYS_OPEN, a.text(path), flags); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return a.err
}

// NextSegment is where the owner of a namespace says which id the next System V shared memory there gets.
const NextSegment = "/proc/sys/kernel/shm_next_id"

// tryPlace has a process do something in a place.
func tryPlace(own Spaces, do func(*newborn) error) error {
	t := NewThreads(1)
	defer t.Close()
	p, err := t.Place(nil, true)
	if err != nil {
		return err
	}
	t.Do(func() { err = p.try(own, do) })
	return err
}

// try has a process made with an id that it would not have by itself.
func (p *Place) try(own Spaces, do func(*newborn) error) error {
	const id = 4711
	h, err := syscall.ForkExec("/proc/self/exe", []string{"gorun"}, &syscall.ProcAttr{
		Files: []uintptr{uintptr(p.pidfd)},
		Sys:   &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return err
	}
	defer func() { unix.Kill(h, unix.SIGKILL); Reap(h, KillLimit) }()
	if s, err := WaitStop(h, 10*time.Second); err != nil || s.Exited {
		return errors.Join(err, whole.ErrDied)
	}
	pid, err := p.Bear(h, 0, id, "/", own)
	if err == nil {
		err = doIn(pid, do)
	}
	if pid != 0 {
		unix.Kill(pid, unix.SIGKILL)
		err = errors.Join(err, Reap(pid, KillLimit))
	}
	return err
}

// doIn has a process that is just made do something.
func doIn(pid int, do func(*newborn) error) error {
	if s, err := WaitStop(pid, StopLimit); err != nil || s.Exited {
		return errors.Join(err, whole.ErrDied)
	}
	a, err := newbornAt(pid)
	if err != nil {
		return err
	}
	defer a.Close()
	return do(a)
}
