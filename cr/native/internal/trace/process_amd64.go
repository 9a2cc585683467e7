package trace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// Process is a running process that may be stopped: a child of this one, most often.
type Process struct {
	PID, Pidfd int
}

// OpenProcess watches a process from now on, until it is closed.
func OpenProcess(pid int) (Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		err = whole.ErrDied
	}
	return Process{pid, fd}, err
}

// Close forgets the process, which goes on. It may be called again.
func (p *Process) Close() error {
	if p.Pidfd < 0 {
		return nil
	}
	err := unix.Close(p.Pidfd)
	p.Pidfd = -1
	return err
}

// Getfd takes a copy of a descriptor of the process. It shares the open file
// description, locks included.
func (p *Process) Getfd(fd int) (int, error) {
	n, err := unix.PidfdGetfd(p.Pidfd, fd, 0)
	if err != nil {
		return -1, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return n, nil
}

// Ended tells whether the process has ended, or is just ending, be it reaped or
// not. It may live on without its first thread.
func (p *Process) Ended() bool {
	fds := []unix.PollFd{{Fd: int32(p.Pidfd), Events: unix.POLLIN}}
	if n, _ := unix.Poll(fds, 0); n > 0 {
		return true
	}
	if !p.Ending(p.PID) {
		return false
	}
	tids, err := proc.Threads(p.PID)
	return err != nil || !slices.ContainsFunc(tids, func(tid int) bool { return !p.Ending(tid) })
}

// Ending tells whether a thread has ended, or is about to.
func (p *Process) Ending(tid int) bool {
	s, err := proc.Parsed(p.PID, "task/"+strconv.Itoa(tid)+"/stat", procfs.ParseStat)
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || err == nil && s.Ending()
}

// Task is the folder of a thread in /proc.
func (p *Process) Task(tid int) string {
	return "/proc/" + strconv.Itoa(p.PID) + "/task/" + strconv.Itoa(tid)
}
