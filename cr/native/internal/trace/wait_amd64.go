package trace

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/proc"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
)

// StopLimit bounds the wait for a thread to stop. Only a thread in an
// uninterruptible system call (a hung network file system, a child between
// vfork and exec) needs more than a few milliseconds.
const StopLimit = 2 * time.Second

// KillLimit bounds the wait for the end of a killed process, whose
// memory the kernel has to take down first.
const KillLimit = 30 * time.Second

// Stop is why a thread does not run.
type Stop struct {
	Sig    int // the signal; SIGTRAP|0x80 at a system call
	event  int // PTRACE_EVENT_..., 0 for a signal's delivery and for system calls
	Exited bool
	Status int  // exit code, or the signal that ended it
	Killed bool // by a signal
}

// syscall tells a stop at the entry or exit of a system call.
func (s Stop) syscall() bool { return s.event == 0 && s.Sig == int(unix.SIGTRAP)|0x80 }

// Delivery tells the stop before a signal is given to the thread: the signal is
// lost unless it is passed on when the thread is resumed.
func (s Stop) Delivery() bool { return s.event == 0 && !s.syscall() && !s.Exited }

// String is how a thread stands.
func (s Stop) String() string {
	switch {
	case s.Killed:
		return fmt.Sprintf("ended by signal %d", s.Status)
	case s.Exited:
		return fmt.Sprintf("ended with %d", s.Status)
	}
	return fmt.Sprintf("stopped by signal %#x, event %d", s.Sig, s.event)
}

// Unreaped tells whether a process, a child or traced, is still to be reaped here: the number is its own then.
func Unreaped(pid int) bool {
	_, _, err := waitid(pid, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT)
	return !errors.Is(err, unix.ECHILD)
}

// peekStop tells whether the thread has stopped or ended; ok is false if it
// runs. A stop is consumed, an end is not: Reap does that. The error is
// ECHILD if there is no such thread.
func peekStop(tid int) (s Stop, ok bool, err error) {
	code, status, err := waitid(tid, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT)
	if err != nil || code == 0 {
		return Stop{}, false, err
	}
	if code != cldTrapped && code != cldStopped {
		return Stop{Exited: true, Status: status, Killed: code != cldExited}, true, nil
	}
	// A kill may have come between the two calls: look again then.
	code, status, err = waitid(tid, unix.WSTOPPED)
	if err != nil || code == 0 {
		return Stop{}, false, err
	}
	return Stop{Sig: status & 0xff, event: status >> 8}, true, nil
}

// si_code of a SIGCHLD.
const (
	cldExited  = 1
	cldTrapped = 4
	cldStopped = 5
)

func waitid(tid, flags int) (code, status int, err error) {
	var info struct {
		signo, errno, code, _ int32
		pid, uid, status      int32
		_                     [100]byte
	}
	_, _, e := unix.RawSyscall6(unix.SYS_WAITID, unix.P_PID, uintptr(tid), uintptr(unsafe.Pointer(&info)),
		uintptr(flags|unix.WNOHANG|unix.WALL), 0, 0)
	if e != 0 {
		return 0, 0, e
	}
	return int(info.code), int(info.status), nil
}

// TakeAnyStop finds a thread traced by the calling one whose stop was not seen
// yet, 0 if there is none at the moment.
func TakeAnyStop() (tid int, err error) {
	var info struct {
		signo, errno, code, _ int32
		pid                   int32
		_                     [108]byte
	}
	_, _, e := unix.RawSyscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info)),
		unix.WSTOPPED|unix.WNOHANG|unix.WALL|unix.WNOTHREAD, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(info.pid), nil
}

// WaitStop waits until the thread has stopped or ended, at most for limit:
// then the error is ErrBusy. A thread that is gone altogether has ended.
func WaitStop(tid int, limit time.Duration) (Stop, error) {
	var b Backoff
	for {
		s, ok, err := peekStop(tid)
		switch {
		case errors.Is(err, unix.ECHILD):
			return Stop{Exited: true}, nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return Stop{}, fmt.Errorf("waiting for thread %d: %w", tid, err)
		case ok:
			return s, nil
		}
		// The leader of a process that was killed is not reported before all
		// other threads were reaped, which may wait for us.
		if b.long() && IsZombie(tid) {
			return Stop{Exited: true}, nil
		}
		if !b.Sleep(limit) {
			return Stop{}, fmt.Errorf("%w: thread %d still runs after %v", ErrBusy, tid, limit)
		}
	}
}

// WaitEnd waits until a process of one thread, which may still stop, has ended, and gives how.
func WaitEnd(pid int, limit time.Duration) (Stop, error) {
	var b Backoff
	for {
		s, ok, err := peekStop(pid)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return s, fmt.Errorf("waiting for the end of %d: %w", pid, err)
		case ok && s.Exited:
			return s, nil
		case !b.Sleep(limit):
			return s, fmt.Errorf("waiting for the end of %d: nothing for %v", pid, limit)
		}
	}
}

// IsZombie tells whether a thread has ended, be it reported or not.
func IsZombie(tid int) bool {
	s, err := proc.Parsed(tid, "stat", procfs.ParseStat)
	return err == nil && (s.State == 'Z' || s.State == 'X')
}

// Reap takes the status of a thread or process that has ended, and waits
// for its end for at most limit.
func Reap(tid int, limit time.Duration) error {
	var b Backoff
	for {
		// The kernel reports stops of what is traced whether asked for or not: they
		// are left to whom they concern.
		code, _, err := waitid(tid, unix.WEXITED|unix.WNOWAIT)
		if err == nil && code != 0 && code != cldTrapped && code != cldStopped {
			_, _, err = waitid(tid, unix.WEXITED)
			if err == nil {
				return nil
			}
		}
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("waiting for the end of %d: %w", tid, err)
		}
		if !b.Sleep(limit) {
			return fmt.Errorf("waiting for the end of %d: nothing for %v", tid, limit)
		}
	}
}
