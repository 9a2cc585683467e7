package native

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// target is a running process that may be imaged: a child of this one. It is not
// for concurrent use; different Targets are captured independently.
type target struct {
	tracer         *tracer
	pid, rank, oob int
	pidfd          int
	stdio          [3]fileID // what it was given as 0, 1 and 2
	text           uint64    // where a syscall instruction was the last time
	locked         []Locked  // memory, when it was last looked at
	oomAdj         *int      // if it is not the agent's, when it was last looked at

	mu    sync.Mutex // guards track: a commit may come while a capture runs
	track tracker
}

// fileID names an open file across processes.
type fileID struct{ dev, inode uint64 }

// Attach prepares the imaging of process pid; oob is the number of its
// descriptor to this process, -1 if it has none. std are the descriptors here of
// what it was given as 0, 1 and 2, negative for none: what the program has there
// by now may be its own. The process is not disturbed.
func (t *tracer) Attach(pid, rank, oob int, std [3]int) (whole.Target, error) {
	g, err := t.attach(pid, rank, oob, std)
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (t *tracer) attach(pid, rank, oob int, std [3]int) (*target, error) {
	g := &target{tracer: t, pid: pid, rank: rank, oob: oob}
	var err error
	if g.pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
		if errors.Is(err, unix.ESRCH) {
			err = whole.ErrDied
		}
		return nil, err
	}
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
func (g *target) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pidfd < 0 {
		return nil
	}
	err := errors.Join(g.track.Close(), unix.Close(g.pidfd))
	g.pidfd = -1
	return err
}

// Committed tells that the snapshot seq is whole: the next Capture may build on
// it.
func (g *target) Committed(seq int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.track.commit(seq)
}

// getfd takes a copy of a descriptor of the process. It shares the open file
// description, locks included.
func (g *target) getfd(fd int) (int, error) {
	n, err := unix.PidfdGetfd(g.pidfd, fd, 0)
	if err != nil {
		return -1, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return n, nil
}

// ended tells whether the process has ended, or is just ending, be it reaped or
// not. It may live on without its first thread.
func (g *target) ended() bool {
	fds := []unix.PollFd{{Fd: int32(g.pidfd), Events: unix.POLLIN}}
	if n, _ := unix.Poll(fds, 0); n > 0 {
		return true
	}
	if !g.ending(g.pid) {
		return false
	}
	tids, err := proc.Threads(g.pid)
	return err != nil || !slices.ContainsFunc(tids, func(tid int) bool { return !g.ending(tid) })
}

// ending tells whether a thread has ended, or is about to.
func (g *target) ending(tid int) bool {
	s, err := proc.Parsed(g.pid, "task/"+strconv.Itoa(tid)+"/stat", proc.ParseStat)
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || err == nil && s.Ending()
}

// explain turns the failures that a dying process causes, which can be of any
// kind, into whole.ErrDied: a kill is not done at once.
func (g *target) explain(err error) error {
	var b backoff
	for err != nil && !g.ended() {
		if !b.sleep(20 * time.Millisecond) {
			return err
		}
	}
	if err != nil {
		return whole.ErrDied
	}
	return nil
}

// task is the folder of a thread in /proc.
func (g *target) task(tid int) string {
	return "/proc/" + strconv.Itoa(g.pid) + "/task/" + strconv.Itoa(tid)
}
