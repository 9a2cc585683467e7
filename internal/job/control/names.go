package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A running job also listens at a name that the kernel keeps, and no file system (unix(7), abstract sockets):
//
//	@gorun/<uid>/<job>/<first incarnation>
//
// It exists as long as the head lives, even if all folders are removed, and wherever they are. All
// names of a machine, or of a container with a network of its own, are in /proc/net/unix. Any user
// may take such a name, so the client checks whose process listens there.

const namePrefix = "@gorun/"

// nameOf is the name of a job.
func nameOf(job, first string) string {
	return namePrefix + strconv.Itoa(os.Getuid()) + "/" + job + "/" + first
}

// names lists names in the form of this user's jobs. Another user may have taken some of them.
func names() (all []string) {
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return nil
	}
	defer f.Close()
	own := nameOf("", "")
	own = own[:len(own)-1]
	for s := bufio.NewScanner(f); s.Scan(); {
		// Num RefCount Protocol Flags Type St Inode Path: of sockets that listen
		fields := strings.Fields(s.Text())
		if len(fields) == 8 && fields[3] == "00010000" && strings.HasPrefix(fields[7], own) && strings.Count(fields[7], "/") == 3 {
			all = append(all, fields[7])
		}
	}
	return all
}

// introduceWithin is how long a job that has a name and no record may take to tell its record.
const introduceWithin = 2 * time.Second

// introduce asks the process that has a name for its record. The record is nil if no process
// listens there, or another user's does.
func introduce(name string) *Record {
	ctx, cancel := context.WithTimeout(context.Background(), introduceWithin)
	defer cancel()
	parts := strings.Split(name, "/")
	r := &Record{Job: parts[2], Incarnation: parts[3], name: name}
	conn, pid, err := dialOwn(ctx, name)
	if err != nil {
		return nil
	}
	conn.Close()
	r.PID = pid
	p, err := r.ask(ctx, Request{Verb: verbRecord}, nil)
	if err != nil || p.Record == nil {
		return r // it is stopped, which is reported to callers that ask it
	}
	p.Record.name = name
	return p.Record
}

// dialOwn connects to a socket if a process of this user listens there, and returns that process's
// number.
func dialOwn(ctx context.Context, path string) (conn net.Conn, pid int, err error) {
	var d net.Dialer
	if conn, err = d.DialContext(ctx, "unix", path); err != nil {
		return nil, 0, err
	}
	cred, err := peer(conn.(*net.UnixConn))
	if err == nil && int(cred.Uid) != os.Getuid() {
		err = fmt.Errorf("%s: user %d listens there", path, cred.Uid)
	}
	if err != nil {
		conn.Close()
		return nil, 0, err
	}
	return conn, int(cred.Pid), nil
}

// peer returns the process and user at the other end, as the kernel knows them.
func peer(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cerr error
	err = raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(err, cerr)
}
