package capture

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The kernel tells of Unix sockets by netlink (unix_diag): which two are a pair, what is
// shut down, what waits.

// unixSocket is what it tells of one.
type unixSocket struct {
	peer      uint64 // inode, 0: of a socket that no process has open
	connected bool   // to a peer
	shut      int
	waiting   int    // connections that were not accepted
	queue     uint32 // what waits to be read; of one that listens, connections
	room      uint32 // of one that listens, its backlog
}

// asker asks.
type asker struct{ fd int }

func newAsker() (*asker, error) {
	const sockDiag = 4 // NETLINK_SOCK_DIAG
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, sockDiag)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	limit := unix.NsecToTimeval(10e9)
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	return &asker{fd}, nil
}

func (a *asker) close() { unix.Close(a.fd) }

// about asks about the socket with an inode.
func (a *asker) about(inode uint64) (unixSocket, error) {
	const (
		byFamily = 20 // SOCK_DIAG_BY_FAMILY
		show     = 0x4 | 0x8 | 0x10
		header   = 16
	)
	p := le.AppendUint32(nil, header+24)
	p = le.AppendUint16(le.AppendUint16(p, byFamily), unix.NLM_F_REQUEST)
	p = append(p, make([]byte, 8)...)
	p = append(p, unix.AF_UNIX, 0, 0, 0)
	for _, w := range []uint32{1<<32 - 1, uint32(inode), show, 1<<32 - 1, 1<<32 - 1} { // any state, any cookie
		p = le.AppendUint32(p, w)
	}
	if err := unix.Sendto(a.fd, p, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return unixSocket{}, fmt.Errorf("unix_diag: %w", err)
	}
	buf := make([]byte, 64<<10)
	n, _, err := unix.Recvfrom(a.fd, buf, 0)
	if err != nil {
		return unixSocket{}, fmt.Errorf("unix_diag: %w", err)
	}
	return parseUnixDiag(buf[:n])
}

var errDiag = errors.New("unexpected answer of unix_diag")

// parseUnixDiag parses an answer about one socket.
func parseUnixDiag(p []byte) (unixSocket, error) {
	const (
		header, message = 16, 16
		failure         = 2 // NLMSG_ERROR
	)
	var s unixSocket
	if len(p) < header+4 {
		return s, errDiag
	}
	if le.Uint16(p[4:]) == failure {
		return s, fmt.Errorf("unix_diag: %w", unix.Errno(-int32(le.Uint32(p[header:]))))
	}
	if len(p) < header+message {
		return s, errDiag
	}
	for p = p[header+message:]; len(p) >= 4; {
		size, kind := int(le.Uint16(p)), le.Uint16(p[2:])
		if size < 4 || size > len(p) {
			return s, errDiag
		}
		s.attribute(kind, p[4:size])
		p = p[min((size+3)&^3, len(p)):]
	}
	return s, nil
}

func (s *unixSocket) attribute(kind uint16, v []byte) {
	const peer, waiting, queue, shut = 2, 3, 4, 6 // UNIX_DIAG_...
	switch {
	case kind == peer && len(v) >= 4:
		s.peer, s.connected = uint64(le.Uint32(v)), true
	case kind == waiting:
		s.waiting = len(v) / 4
	case kind == queue && len(v) >= 8:
		s.queue, s.room = le.Uint32(v), le.Uint32(v[4:])
	case kind == shut && len(v) >= 1:
		s.shut = int(v[0])
	}
}
