package capture

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// identityOf looks at a thread, or at a process's first one, by its folder in /proc.
func identityOf(dir string) (identity, error) {
	p, err := os.ReadFile(dir + "/status")
	if err != nil {
		return nil, err
	}
	known, err := proc.ParseIdentity(p)
	if err != nil {
		return nil, err
	}
	id := identity(known)
	links := []string{"root"}
	for _, name := range namespaces() {
		links = append(links, "ns/"+name)
	}
	for _, name := range links {
		link, err := os.Readlink(dir + "/" + name)
		if err != nil {
			return nil, err
		}
		id[path.Base(name)] = link
	}
	return id, nil
}

// asBorn gives what a process is that is started by the executable of process pid, as a
// restore does it. All ranks of an agent have the same, but those in a trace.Place.
func (a *Agent) asBorn(pid int) (identity, error) {
	if p := a.threads.PlaceOf(pid); p != nil {
		id, err := identityOf("/proc/" + strconv.Itoa(p.PID))
		for name, own := range map[string]string{"ipc": trace.IPCOf(pid), "mnt": trace.MountsOf(pid)} {
			if err == nil && p.Made(own) {
				id[name] = own
			}
		}
		return id, err
	}
	b := &a.births
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.born != nil {
		return b.born, nil
	}
	var err error
	open := a.threads.Pick().Do(func() {
		err = trace.Newborn(fmt.Sprintf("/proc/%d/exe", pid), func(pid int) error {
			if s, err := trace.WaitStop(pid, 10*time.Second); err != nil || s.Exited {
				return errors.Join(err, fmt.Errorf("it %v", s))
			}
			var err error
			b.born, err = identityOf("/proc/" + strconv.Itoa(pid))
			return err
		})
		b.bits = secureBits()
	})
	if !open {
		err = trace.ErrClosed
	}
	if err != nil {
		return nil, fmt.Errorf("starting the program once more, to see what it is born with: %w", err)
	}
	return b.born, nil
}

// secureBits are those of this process that an exec leaves: only a thread itself is
// told them.
func secureBits() int {
	const keepCaps = 1 << 4
	bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	if err != nil {
		return 0
	}
	return bits &^ keepCaps
}

// checkIdentity refuses a process if one of its threads has another identity than
// processes that the agent starts, or has private state that threads usually
// share.
func (g *Target) checkIdentity() error {
	want, err := g.agent.asBorn(g.PID)
	if err != nil {
		return err
	}
	tids, err := proc.Threads(g.PID)
	if err != nil {
		return err
	}
	for _, tid := range tids {
		if err := g.checkThread(tid, want); err != nil && !g.Ending(tid) {
			return err
		}
	}
	return nil
}

// checkThread looks at one thread. One that is ending may be shown without anything,
// and has nothing in common with the others any more.
func (g *Target) checkThread(tid int, want identity) error {
	id, err := identityOf(g.Task(tid))
	if err == nil {
		err = id.differs(want)
	}
	if err == nil {
		err = sharesAll(g.PID, tid)
	}
	return err
}

// sharesAll refuses a thread that has left the others by unshare.
func sharesAll(pid, tid int) error {
	const files, fs = 2, 3 // KCMP_FILES, KCMP_FS
	for what, name := range map[uintptr]string{files: "descriptors", fs: "a working directory and umask"} {
		if r, _, e := unix.RawSyscall6(unix.SYS_KCMP, uintptr(pid), uintptr(tid), what, 0, 0, 0); e == 0 && r != 0 {
			return refusal.New("do without unshare", "its thread %d has %s of its own", tid, name)
		}
	}
	return nil
}

// lookForPlace finds out whether the process has other ids than it has here.
func (g *Target) lookForPlace() { g.placed = g.agent.threads.PlaceOf(g.PID) != nil }

// idOf gives the number that a thread has for itself, which stands or waits. Of one that is just ending it is
// the one that it has here.
func (g *Target) idOf(tid int) int {
	if g.placed {
		s, err := proc.Parsed(g.PID, "task/"+strconv.Itoa(tid)+"/status", proc.ParseStatus)
		if err == nil && s.Inner != 0 {
			return s.Inner
		}
	}
	return tid
}

// checkIdentity looks once more at the process itself, by its copy, which was born as
// it was when it stood still.
func (c *captured) checkIdentity(pid int) error {
	want, err := c.g.agent.asBorn(pid)
	if err != nil {
		return err
	}
	id, err := identityOf("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return err
	}
	return id.differs(want)
}

// checkSecureBits refuses securebits of the program's own.
func (a *Agent) checkSecureBits(in *trace.Injector) error {
	bits, err := in.Call(unix.SYS_PRCTL, unix.PR_GET_SECUREBITS)
	if err == nil && int(bits) != a.births.bits {
		return refusal.New("start gorun with them, instead of setting them in the program", "it has set securebits %#x", bits)
	}
	return nil
}
