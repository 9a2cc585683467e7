package criu

import (
	"fmt"

	"github.com/checkpoint-restore/go-criu/v8/rpc"
)

// Names of criu's logs in its working folder.
const (
	dumpLog    = "dump.log"
	restoreLog = "restore.log"
)

func ptr[T any](v T) *T { return &v }

// common are the options that a dump and its restore must agree on.
func common(images, work int, log string) *rpc.CriuOpts {
	return &rpc.CriuOpts{
		ImagesDirFd: ptr(int32(images)),
		WorkDirFd:   ptr(int32(work)),
		LogFile:     ptr(log),
		LogLevel:    ptr(int32(2)),
		ShellJob:    ptr(true), // the session's leader is the launcher or a shell
		TcpClose:    ptr(true), // the message layer connects again
		ExtUnixSk:   ptr(true),
		FileLocks:   ptr(true),
	}
}

// dumpOptions are those of an image that the process survives.
func dumpOptions(st *State, images, work int, unprivileged bool) (*rpc.CriuOpts, error) {
	ino, err := inode(st.Socket)
	if err != nil {
		return nil, err
	}
	o := common(images, work, dumpLog)
	o.Pid = ptr(int32(st.PID))
	o.LeaveRunning = ptr(true)
	o.External = []string{fmt.Sprintf("unix[%d]", ino)} // its other half is the agent's
	for _, name := range st.Std {
		if ino, err := inode(name); err == nil {
			o.External = append(o.External, fmt.Sprintf("unix[%d]", ino))
		}
	}
	if unprivileged {
		o.Unprivileged = ptr(true)
	}
	return o, nil
}

// restoreOptions are those of a process that becomes a child of the caller;
// what it inherits is told to the library (inherited).
func restoreOptions(images, work int, hold, unprivileged bool) *rpc.CriuOpts {
	o := common(images, work, restoreLog)
	o.RstSibling = ptr(true)
	if hold {
		o.LeaveStopped = ptr(true)
	}
	if unprivileged {
		o.Unprivileged = ptr(true)
	}
	return o
}

// inherited says which descriptor here takes the place of which one there, by
// the name it had.
func inherited(st *State, std [3]int, oob int) map[string]int {
	m := map[string]int{st.Socket: oob}
	for fd, name := range st.Std {
		if _, twice := m[name]; name != "" && !twice {
			m[name] = std[fd]
		}
	}
	return m
}
