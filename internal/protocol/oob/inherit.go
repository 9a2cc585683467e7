package oob

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// EnvFD names, in a rank's environment, the descriptor of the socket to its agent. Nothing else is passed that
// way. Secrets come over the socket.
const EnvFD = "GORUN_OOB_FD"

// EnvRank and EnvSize tell a rank, and the processes that it starts, its number and the number of
// ranks.
const (
	EnvRank = "GORUN_RANK"
	EnvSize = "GORUN_SIZE"
)

// EnvAttended is set for the processes of a rank that is gorun itself, in a job of several ranks.
// It names the program that gorun takes for one that does not use the library; see package
// initproc.
const EnvAttended = "GORUN_ATTENDED"

// inherited is the socket that this process was started with, -1 if none.
var inherited = -1

// Before main runs, the socket is marked close-on-exec and the variable is dropped. A child of a rank must not
// speak on the socket. It must not hold it open either: that would hide the rank's death.
func init() {
	v, ok := os.LookupEnv(EnvFD)
	if !ok {
		return
	}
	os.Unsetenv(EnvFD)
	fd, err := strconv.Atoi(v)
	if err != nil || fd < 3 {
		return
	}
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
		return
	}
	syscall.CloseOnExec(fd)
	inherited = fd
	os.Unsetenv(EnvAttended) // it belongs to an outer job
}

// Inherited returns the stream to the agent that started this process, or nil if it was started without gorun.
// It can be taken once.
func Inherited() (*Conn, error) {
	if inherited < 0 {
		return nil, nil
	}
	fd := inherited
	inherited = -1
	c, err := NewConn(fd)
	if err != nil {
		return nil, fmt.Errorf("inherited socket: %w", err)
	}
	return c, nil
}

// Bequeath passes the stream of this process to the program that it is about to become by exec, in
// the environment that it returns. It is called in place of Inherited.
func Bequeath(env []string) ([]string, error) {
	if inherited < 0 {
		return env, nil
	}
	if _, err := unix.FcntlInt(uintptr(inherited), unix.F_SETFD, 0); err != nil {
		return nil, fmt.Errorf("inherited socket: %w", err)
	}
	return append(env, fmt.Sprintf("%s=%d", EnvFD, inherited)), nil
}
