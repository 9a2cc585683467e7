package capture

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/dirty"
	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// Target is a running process that may be imaged: a child of this one. It is not
// for concurrent use; different Targets are captured independently.
type Target struct {
	trace.Process
	agent     *Agent
	rank, oob int
	stdio     [3]fileID      // what it was given as 0, 1 and 2
	exe       fileID         // its executable, when that was last looked at
	text      uint64         // where a syscall instruction was the last time
	locked    []state.Locked // memory, when it was last looked at
	apart     []state.Apart  // the same
	program   runtimes.Program
	runtimes  runtimes.Set        // in that
	tidy      map[tcb]uint64      // addresses that the kernel clears when threads end
	calls     map[int]interrupted // by thread
	placed    bool                // it is in a trace.Place
	oomAdj    *int                // if it is not the agent's, when it was last looked at
	first     *Target             // of its family, nil if it is that
	kin       map[int]*Target     // of the first: those that descend from it, by their numbers here
	sysv      bool                // it has System V shared memory, the same
	masters   []int               // descriptors of the other sides of terminals, the same
	queues    []int               // descriptors of inotify, the same
	watched   map[proc.Inode]watched
	writers   map[string]int // by file: a process beside the family that has it open for writing, 0 if none; as far as was looked for
	looked    bool           // it was looked at before anything was stopped
	came      comeback       // from an image

	mu    sync.Mutex // guards track: a commit may come while a capture runs
	track dirty.Tracker
}

// fileID names an open file across processes.
type fileID struct{ dev, inode uint64 }

// Attach prepares the imaging of process pid; oob is the number of its
// descriptor to this process, -1 if it has none. std are the descriptors here of
// what it was given as 0, 1 and 2, negative for none: what the program has there
// by now may be its own. The process is not disturbed.
func (a *Agent) Attach(pid, rank, oob int, std [3]int) (*Target, error) {
	p, err := trace.OpenProcess(pid)
	if err != nil {
		return nil, err
	}
	g := &Target{Process: p, agent: a, rank: rank, oob: oob, came: a.comebackOf(pid)}
	for i, fd := range std {
		var st unix.Stat_t
		if fd >= 0 && unix.Fstat(fd, &st) == nil {
			g.stdio[i] = fileID{st.Dev, st.Ino}
		}
	}
	return g, nil
}

// statFile finds out what a descriptor refers to.
func statFile(pid, fd int) (fileID, *unix.Stat_t) {
	var st unix.Stat_t
	if unix.Stat(fdPath(pid, fd), &st) != nil {
		return fileID{}, nil
	}
	return fileID{st.Dev, st.Ino}, &st
}

func fdPath(pid, fd int) string { return fmt.Sprintf("/proc/%d/fd/%d", pid, fd) }

// Close forgets the process, which goes on. It may be called again.
func (g *Target) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.kin {
		m.Close()
	}
	g.kin = nil
	return errors.Join(g.track.Close(), g.Process.Close())
}

// Committed tells that the snapshot seq is whole: the next Capture may build on
// it.
func (g *Target) Committed(seq int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.track.Commit(seq)
}

// explain turns the failures that a dying process causes, which can be of any
// kind, into whole.ErrDied: a kill is not done at once.
func (g *Target) explain(err error) error {
	var b trace.Backoff
	for err != nil && !g.Ended() {
		if !b.Sleep(20 * time.Millisecond) {
			return err
		}
	}
	if err != nil {
		return whole.ErrDied
	}
	return nil
}
