package native

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// process is a running process that may be stopped: a child of this one, most often.
type process struct {
	pid, pidfd int
}

// openProcess watches a process from now on, until it is closed.
func openProcess(pid int) (process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		err = whole.ErrDied
	}
	return process{pid, fd}, err
}

// close forgets the process, which goes on. It may be called again.
func (p *process) close() error {
	if p.pidfd < 0 {
		return nil
	}
	err := unix.Close(p.pidfd)
	p.pidfd = -1
	return err
}

// getfd takes a copy of a descriptor of the process. It shares the open file
// description, locks included.
func (p *process) getfd(fd int) (int, error) {
	n, err := unix.PidfdGetfd(p.pidfd, fd, 0)
	if err != nil {
		return -1, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	return n, nil
}

// ended tells whether the process has ended, or is just ending, be it reaped or
// not. It may live on without its first thread.
func (p *process) ended() bool {
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	if n, _ := unix.Poll(fds, 0); n > 0 {
		return true
	}
	if !p.ending(p.pid) {
		return false
	}
	tids, err := proc.Threads(p.pid)
	return err != nil || !slices.ContainsFunc(tids, func(tid int) bool { return !p.ending(tid) })
}

// ending tells whether a thread has ended, or is about to.
func (p *process) ending(tid int) bool {
	s, err := proc.Parsed(p.pid, "task/"+strconv.Itoa(tid)+"/stat", proc.ParseStat)
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || err == nil && s.Ending()
}

// task is the folder of a thread in /proc.
func (p *process) task(tid int) string {
	return "/proc/" + strconv.Itoa(p.pid) + "/task/" + strconv.Itoa(tid)
}
