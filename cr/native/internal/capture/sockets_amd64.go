package capture

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// Sockets come back as they were if no other process is concerned: those that listen,
// that send datagrams, that are connected to none, and pairs of the process's own with
// what is on its way in them. A connection to any other process comes back closed.

// recordSockets records the state of the sockets among the files.
func (st *stand) recordSockets(r *recorder) error {
	var ask *asker
	for i := range r.state.Files {
		f := &r.state.Files[i]
		if f.Kind != state.FileSocket || f.Mode&unix.S_IFMT != unix.S_IFSOCK || !f.First() {
			continue
		}
		if ask == nil {
			var err error
			if ask, err = newAsker(); err != nil {
				return err
			}
			defer ask.close()
		}
		if err := st.recordSocket(f, ask); err != nil {
			return fmt.Errorf("descriptor %d: %w", f.FD, err)
		}
	}
	if r == st.family.records[len(st.family.records)-1] {
		st.family.dropHalves()
	}
	return nil
}

// sockets calls f with the first descriptor of each socket of the family, and the process that has it, until it gives true.
func (f *family) sockets(do func(st *stand, s *state.File) bool) {
	for i, r := range f.records {
		for j := range r.state.Files {
			if s := &r.state.Files[j]; s.Kind == state.FileSocket && s.First() && do(f.stands[i], s) {
				return
			}
		}
	}
}

// socket finds one by its inode, with a process that has it.
func (f *family) socket(inode uint64) (whose *stand, found *state.File) {
	f.sockets(func(st *stand, s *state.File) bool {
		if s.Inode == inode {
			whose, found = st, s
		}
		return found != nil
	})
	return whose, found
}

// dropHalves has ends whose other end does not name them come back closed.
func (f *family) dropHalves() {
	f.sockets(func(_ *stand, s *state.File) bool {
		if s.Socket != nil && s.Socket.Other != 0 {
			if _, o := f.socket(s.Socket.Other); o == nil || o.Socket == nil || o.Socket.Other != s.Inode {
				s.Socket = nil
			}
		}
		return false
	})
}

// recordSocket looks at one by a descriptor of our own.
func (st *stand) recordSocket(f *state.File, ask *asker) error {
	fd, err := st.g.Getfd(f.FD)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	k := &state.Socket{}
	for name, to := range map[int]*int{unix.SO_DOMAIN: &k.Domain, unix.SO_TYPE: &k.Type, unix.SO_PROTOCOL: &k.Protocol} {
		if *to, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, name); err != nil {
			return err
		}
	}
	listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return err
	}
	k.Listens = listens != 0
	k.Local = address(fd, unix.SYS_GETSOCKNAME)
	again := false
	switch {
	case k.Domain == unix.AF_UNIX:
		again, err = st.recordUnix(f, k, fd, ask)
	case k.Domain == unix.AF_NETLINK:
		again = true
	case (k.Domain == unix.AF_INET || k.Domain == unix.AF_INET6) && k.Type == unix.SOCK_STREAM:
		again = recordStream(k, fd)
	case (k.Domain == unix.AF_INET || k.Domain == unix.AF_INET6) && k.Type == unix.SOCK_DGRAM && k.Protocol != unix.IPPROTO_ICMP && k.Protocol != unix.IPPROTO_ICMPV6:
		k.Peer, again = address(fd, unix.SYS_GETPEERNAME), true
	default:
		return refusal.New("close it while checkpoints are taken", "a socket of domain %d and type %d", k.Domain, k.Type)
	}
	if err != nil || !again {
		return err
	}
	if err := refuseFilter(fd); err != nil {
		return err
	}
	f.Socket = k
	k.Options, err = optionsOf(k, fd)
	return err
}

// address gives what the kernel calls an end of a socket, nil if it has none.
func address(fd int, call uintptr) []byte {
	p := make([]byte, state.MaxAddress)
	n := uint32(len(p))
	if _, _, e := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(unsafe.Pointer(&n))); e != 0 || n <= 2 {
		return nil
	}
	p = p[:min(n, uint32(len(p)))]
	if le.Uint16(p) != unix.AF_UNIX && bytes.Equal(p[2:], make([]byte, len(p)-2)) {
		return nil
	}
	return p
}

// recordStream tells whether a stream of the network is connected to none.
func recordStream(k *state.Socket, fd int) bool {
	const closed, listen = 7, 10
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if k.Listens {
		k.Backlog = unix.SOMAXCONN
		if err == nil && info.State == listen && info.Sacked > 0 {
			k.Backlog = int(info.Sacked)
		}
		return true
	}
	return err == nil && info.State == closed
}

func refuseFilter(fd int) error {
	const getFilter = 26 // SO_GET_FILTER
	var n uint32
	if _, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, getFilter, 0, uintptr(unsafe.Pointer(&n)), 0); e == 0 && n > 0 {
		return refusal.New("detach it while checkpoints are taken", "a socket with a filter")
	}
	return nil
}

// recordUnix completes one of a Unix socket, and tells whether it can be made again.
func (st *stand) recordUnix(f *state.File, k *state.Socket, fd int, ask *asker) (bool, error) {
	u, err := ask.about(f.Inode)
	if err != nil {
		if k.Listens || len(address(fd, unix.SYS_GETPEERNAME)) > 0 || !errors.Is(err, unix.ENOENT) {
			return false, nil // a kernel that does not tell
		}
		return true, nil
	}
	st.findName(k)
	const both = 3
	switch {
	case k.Listens && u.waiting > 0:
		return false, refusal.New("accept it first", "a connection to %q that waits to be accepted", nameOfUnix(k.Local))
	case k.Listens:
		k.Backlog = int(u.room)
		return true, nil
	case !u.connected && (k.Type != unix.SOCK_DGRAM || u.queue == 0):
		return true, nil
	case !u.connected:
		return false, refusal.New("read them before a checkpoint", "datagrams that wait in the socket %q", nameOfUnix(k.Local))
	}
	k.Shut = u.shut
	if u.peer == 0 {
		if k.Alone = u.shut == both || k.Type == unix.SOCK_DGRAM; !k.Alone {
			return false, nil // not accepted yet, by another process
		}
	} else {
		k.Other = u.peer
	}
	if k.Type == unix.SOCK_DGRAM && k.Other != 0 && len(k.Local) == 0 && st.addressOf(k.Other) != nil || len(k.Local) > 0 && k.Type == unix.SOCK_DGRAM {
		k.Peer, k.Other, k.Alone = address(fd, unix.SYS_GETPEERNAME), 0, false // by name, not a pair
		if u.queue > 0 {
			return false, refusal.New("read them before a checkpoint", "datagrams that wait in the socket %q", nameOfUnix(k.Local))
		}
		return true, nil
	}
	if _, other := st.family.socket(k.Other); k.Other != 0 && other == nil {
		return false, nil // with somebody else
	}
	if u.queue > 0 {
		k.Queue, err = st.queueOf(fd)
	}
	return true, err
}

// addressOf gives the name of a socket of the family's own, nil if it has none.
func (st *stand) addressOf(inode uint64) []byte {
	whose, f := st.family.socket(inode)
	if f == nil {
		return nil
	}
	fd, err := whose.g.Getfd(f.FD)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return address(fd, unix.SYS_GETSOCKNAME)
}

// nameOfUnix is the name of a Unix socket; one that is not in the file system begins with @.
func nameOfUnix(address []byte) string {
	if len(address) <= 2 {
		return ""
	}
	name := string(bytes.TrimRight(address[3:], "\x00"))
	if address[2] == 0 {
		return "@" + name
	}
	return string(address[2:3]) + name
}

// findName records whether the name of a Unix socket is still in the file system.
func (st *stand) findName(k *state.Socket) {
	if len(k.Local) <= 2 || k.Local[2] == 0 {
		return
	}
	path := nameOfUnix(k.Local)
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", st.g.PID)); err == nil && !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	var s unix.Stat_t
	k.Unlinked = unix.Lstat(path, &s) != nil || s.Mode&unix.S_IFMT != unix.S_IFSOCK
}

// queueOf copies what waits in a socket, and leaves it there.
func (st *stand) queueOf(fd int) ([]state.Message, error) {
	const peekOff = 42 // SO_PEEK_OFF
	before, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, peekOff)
	if err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, peekOff, 0); err != nil {
		return nil, err
	}
	defer unix.SetsockoptInt(fd, unix.SOL_SOCKET, peekOff, before)
	var all []state.Message
	p, control := make([]byte, 4<<20), make([]byte, 4096)
	for {
		n, nc, flags, _, err := unix.Recvmsg(fd, p, control, unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EAGAIN) || err == nil && n == 0 && nc == 0 {
			return all, nil
		}
		if err != nil || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			return nil, fmt.Errorf("what waits in the socket: %w", errors.Join(err, errShort))
		}
		m := state.Message{Data: bytes.Clone(p[:n])}
		if err = st.passed(&m, control[:nc]); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
}

// passed finds the descriptors that came with a message among those of the family.
func (st *stand) passed(m *state.Message, control []byte) error {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return err
	}
	var here []int
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			here = append(here, fds...)
		}
	}
	defer func() {
		for _, fd := range here {
			unix.Close(fd)
		}
	}()
	for _, fd := range here {
		whose, there := st.family.find(fd)
		if whose == nil {
			return refusal.New("receive it before a checkpoint", "a descriptor that waits in a socket and that the process has no more itself")
		}
		if i := slices.IndexFunc(st.family.filesOf(whose), func(f state.File) bool {
			return f.FD == there && (f.Kind == state.FilePty || f.Kind == state.FilePidfd)
		}); i >= 0 {
			return refusal.New("receive it before a checkpoint", "a descriptor of a terminal or of a process that waits in a socket")
		}
		m.FDs = append(m.FDs, there)
		if len(st.family.stands) > 1 {
			m.Of = append(m.Of, whose.g.idOf(whose.g.PID))
		}
	}
	return nil
}

// filesOf gives the descriptors of one of the family.
func (f *family) filesOf(st *stand) []state.File {
	return f.records[slices.Index(f.stands, st)].state.Files
}

// find gives a process of the family that has what is fd here, and its number there.
func (f *family) find(fd int) (whose *stand, there int) {
	for i, r := range f.records {
		for j := range r.state.Files {
			o := &r.state.Files[j]
			same, _, e := unix.RawSyscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(f.stands[i].g.PID), kcmpFile, uintptr(fd), uintptr(o.FD), 0)
			if e == 0 && same == 0 {
				return f.stands[i], o.FD
			}
		}
	}
	return nil, 0
}

// options are those that are carried over.
var options = []struct{ domain, kind, level, name int }{
	{0, 0, unix.SOL_SOCKET, unix.SO_REUSEADDR}, {0, 0, unix.SOL_SOCKET, unix.SO_REUSEPORT}, {0, 0, unix.SOL_SOCKET, unix.SO_KEEPALIVE},
	{0, 0, unix.SOL_SOCKET, unix.SO_BROADCAST}, {0, 0, unix.SOL_SOCKET, unix.SO_OOBINLINE}, {0, 0, unix.SOL_SOCKET, unix.SO_LINGER},
	{0, 0, unix.SOL_SOCKET, unix.SO_RCVTIMEO}, {0, 0, unix.SOL_SOCKET, unix.SO_SNDTIMEO}, {0, 0, unix.SOL_SOCKET, unix.SO_RCVLOWAT},
	{0, 0, unix.SOL_SOCKET, unix.SO_PASSCRED}, {0, 0, unix.SOL_SOCKET, unix.SO_SNDBUF}, {0, 0, unix.SOL_SOCKET, unix.SO_RCVBUF},
	{unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_TOS}, {unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_TTL}, {unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_FREEBIND},
	{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_IP, unix.IP_PKTINFO}, {unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_IP, unix.IP_RECVERR},
	{unix.AF_INET6, 0, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY}, {unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_NODELAY}, {unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_NODELAY},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, {unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT}, {unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT},
}

// optionsOf lists the options of a socket that differ from those of a new one.
func optionsOf(k *state.Socket, fd int) ([]state.Option, error) {
	fresh, err := unix.Socket(k.Domain, k.Type|unix.SOCK_CLOEXEC, k.Protocol)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fresh)
	var all []state.Option
	for _, o := range options {
		if o.domain != 0 && o.domain != k.Domain || o.kind != 0 && o.kind != k.Type {
			continue
		}
		have, usual := option(fd, o.level, o.name), option(fresh, o.level, o.name)
		if have != nil && !bytes.Equal(have, usual) {
			all = append(all, state.Option{Level: o.level, Name: o.name, Value: have})
		}
	}
	return all, nil
}

// option reads one, nil if there is none.
func option(fd, level, name int) []byte {
	p := make([]byte, 16)
	n := uint32(len(p))
	if _, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(unsafe.Pointer(&p[0])), uintptr(unsafe.Pointer(&n)), 0); e != 0 || n == 0 {
		return nil
	}
	return p[:n]
}
