package outfile

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Lock keeps others of this user and machine away from an output file for as long as
// somebody writes to it. It is a socket bound to a name made of the user and the
// file's identity, which the kernel gives once: a lock on the file itself the program
// would meet where it locks its file by another descriptor. A file that is removed leaves
// its number to another, perhaps before its lock is given up; but that one is younger.
//
// The lock ends with this process, with Give, and when it is in the way of another one
// here after its owner has ended.
type Lock struct {
	name  string
	sock  int
	ended func() bool // says that the owner has; nil as long as there is none
	drop  func()      // called when the lock is given up; may be nil
}

// ErrLocked says that somebody, of this process or another one, has the file.
var ErrLocked = errors.New("it is locked")

// fileLocks are the locks held by this process, by name.
var fileLocks struct {
	sync.Mutex
	held map[string]*Lock
}

// Take locks an open file. Errors: ErrLocked.
func Take(fd int) (*Lock, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return nil, err
	}
	born := st.Btime
	if st.Mask&unix.STATX_BTIME == 0 { // not every file system knows
		born = unix.StatxTimestamp{}
	}
	l := &Lock{name: fmt.Sprintf("@gorun-output-%d-%x:%x-%x-%x.%x", os.Getuid(), st.Dev_major, st.Dev_minor, st.Ino, born.Sec, born.Nsec)}
	fileLocks.Lock()
	defer fileLocks.Unlock()
	if other := fileLocks.held[l.name]; other != nil && other.ended != nil && other.ended() {
		other.give()
	}
	var err error
	if l.sock, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err := unix.Bind(l.sock, &unix.SockaddrUnix{Name: l.name}); err != nil {
		unix.Close(l.sock)
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, ErrLocked
		}
		return nil, err
	}
	if fileLocks.held == nil {
		fileLocks.held = make(map[string]*Lock)
	}
	fileLocks.held[l.name] = l
	return l, nil
}

// Of says which process has the file. If it cannot be watched, the lock lasts until it is given up.
func (l *Lock) Of(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	l.Until(func() bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return n > 0 && err == nil
	}, func() { unix.Close(fd) })
}

// Until says how it is known that the owner has ended; ended must not take locks. It is asked when somebody else wants the file, and drop,
// if not nil, called when the lock is given up.
func (l *Lock) Until(ended func() bool, drop func()) {
	fileLocks.Lock()
	defer fileLocks.Unlock()
	l.ended, l.drop = ended, drop
}

// Give gives the lock up.
func (l *Lock) Give() {
	fileLocks.Lock()
	defer fileLocks.Unlock()
	l.give()
}

func (l *Lock) give() {
	if fileLocks.held[l.name] != l {
		return // given up before
	}
	delete(fileLocks.held, l.name)
	unix.Close(l.sock)
	if l.drop != nil {
		l.drop()
	}
}
