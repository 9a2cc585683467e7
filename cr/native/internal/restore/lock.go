//go:build linux

package restore

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// fileLock keeps other restores away from an output file for as long as a
// restored process writes to it. It is a socket bound to a name made of the user
// and the file's identity, which the kernel gives once: a lock on the file itself
// the program would meet where it locks its file by another descriptor.
//
// The lock ends with this process, with Restored.Close, and when it is in the way
// of another restore here after the process has ended.
type fileLock struct {
	name  string
	sock  int
	pidfd int // of the process that writes, -1 as long as there is none
}

// errLocked: another restore, of this process or another one, has the file.
var errLocked = errors.New("it is locked")

// fileLocks are the locks held by this process, by name.
var fileLocks struct {
	sync.Mutex
	held map[string]*fileLock
}

func lockFile(dev, inode uint64) (*fileLock, error) {
	l := &fileLock{name: fmt.Sprintf("@gorun-output-%d-%x-%x", os.Getuid(), dev, inode), pidfd: -1}
	fileLocks.Lock()
	defer fileLocks.Unlock()
	if other := fileLocks.held[l.name]; other != nil && other.ended() {
		other.drop()
	}
	var err error
	if l.sock, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err := unix.Bind(l.sock, &unix.SockaddrUnix{Name: l.name}); err != nil {
		unix.Close(l.sock)
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, errLocked
		}
		return nil, err
	}
	if fileLocks.held == nil {
		fileLocks.held = make(map[string]*fileLock)
	}
	fileLocks.held[l.name] = l
	return l, nil
}

// of says which process has the file. If it cannot be watched, the lock lasts
// until it is given up.
func (l *fileLock) of(pid int) {
	fileLocks.Lock()
	defer fileLocks.Unlock()
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		l.pidfd = fd
	}
}

// ended reports whether the process that had the file has ended.
func (l *fileLock) ended() bool {
	if l.pidfd < 0 {
		return false
	}
	p := []unix.PollFd{{Fd: int32(l.pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return n > 0 && err == nil
}

// give gives the lock up.
func (l *fileLock) give() {
	fileLocks.Lock()
	defer fileLocks.Unlock()
	l.drop()
}

func (l *fileLock) drop() {
	if fileLocks.held[l.name] != l {
		return // given up before
	}
	delete(fileLocks.held, l.name)
	unix.Close(l.sock)
	if l.pidfd >= 0 {
		unix.Close(l.pidfd)
	}
}
