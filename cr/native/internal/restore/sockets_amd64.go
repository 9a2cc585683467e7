package restore

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/native/internal/state"
)

// makeSocket makes a socket: as it was, or a closed one where that cannot be.
func (d *descriptors) makeSocket(f *state.File) (int, error) {
	k := f.Socket
	if k == nil {
		return deadSocket()
	}
	if k.Paired() {
		return d.makeEnd(f)
	}
	fd, err := unix.Socket(k.Domain, k.Type|unix.SOCK_CLOEXEC, k.Protocol)
	if err != nil {
		return -1, err
	}
	setOptions(fd, k)
	if k.Domain == unix.AF_UNIX && hasName(k) || k.Domain == unix.AF_UNIX && len(k.Peer) > 0 {
		return fd, nil // bound, and connected, when the process goes on
	}
	if establish(fd, k) != nil { // its address is another's, or of another machine: it is told by the first call
		unix.Close(fd)
		return deadSocket()
	}
	return fd, nil
}

// hasName tells a Unix socket with a name in the file system.
func hasName(k *state.Socket) bool { return len(k.Local) > 2 && k.Local[2] != 0 }

// establish gives a socket its address and its peer, and has it listen.
func establish(fd int, k *state.Socket) error {
	if len(k.Local) > 0 {
		if err := bindTo(fd, k); err != nil {
			return err
		}
	}
	if len(k.Peer) > 0 {
		if err := addressed(unix.SYS_CONNECT, fd, k.Peer); err != nil {
			return err
		}
	}
	if k.Listens {
		return unix.Listen(fd, k.Backlog)
	}
	return nil
}

// bindTo binds it, although connections of before may linger there.
func bindTo(fd int, k *state.Socket) error {
	stream := k.Type == unix.SOCK_STREAM && k.Domain != unix.AF_UNIX
	if stream {
		before, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR)
		if err != nil {
			return err
		}
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		defer unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, before)
	}
	err := addressed(unix.SYS_BIND, fd, k.Local)
	if k.Domain == unix.AF_NETLINK && errors.Is(err, unix.EADDRINUSE) && len(k.Local) >= 8 {
		any := append([]byte(nil), k.Local...)
		le.PutUint32(any[4:], 0) // the kernel gives it a number
		err = addressed(unix.SYS_BIND, fd, any)
	}
	return err
}

// addressed makes a call that takes an address.
func addressed(call uintptr, fd int, address []byte) error {
	_, _, e := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)))
	if e != 0 {
		return e
	}
	return nil
}

// setOptions sets options; what may not be set here is as a new socket has it.
func setOptions(fd int, k *state.Socket) {
	for _, o := range k.Options {
		p := append([]byte(nil), o.Value...)
		if o.Level == unix.SOL_SOCKET && (o.Name == unix.SO_SNDBUF || o.Name == unix.SO_RCVBUF) && len(p) == 4 {
			le.PutUint32(p, le.Uint32(p)/2) // the kernel doubles it
		}
		unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(o.Level), uintptr(o.Name), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), 0)
	}
}

// makeEnd makes one end of a pair, and with the first the other.
func (d *descriptors) makeEnd(f *state.File) (int, error) {
	k := f.Socket
	if fd, ok := d.ends[f.Inode]; ok {
		setOptions(fd, k)
		return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	}
	pair, err := unix.Socketpair(k.Domain, k.Type|unix.SOCK_CLOEXEC, k.Protocol)
	if err != nil {
		return -1, err
	}
	d.own = append(d.own, pair[1])
	d.ends[cmp.Or(k.Other, aloneKey|f.Inode)] = pair[1]
	d.ends[f.Inode] = pair[0]
	setOptions(pair[0], k)
	return pair[0], nil
}

// aloneKey marks the end that no process has, by the inode of the other end.
const aloneKey = 1 << 63

// refillSockets puts what waited in pairs there again, by the other ends, and shuts down
// what was.
func (d *descriptors) refillSockets(s *state.State) error {
	files := s.Files
	paired := func(f *state.File) bool { return f.Socket != nil && f.First() && f.Socket.Paired() }
	for i := range files {
		f := &files[i]
		if !paired(f) {
			continue
		}
		from := d.ends[cmp.Or(f.Socket.Other, aloneKey|f.Inode)]
		for _, m := range f.Socket.Queue {
			var rights []byte
			if len(m.FDs) > 0 {
				var here []int
				for i, fd := range m.FDs {
					whose := s.PID
					if len(m.Of) > 0 {
						whose = m.Of[i]
					}
					here = append(here, d.tables[whose][fd])
				}
				rights = unix.UnixRights(here...)
			}
			n, err := unix.SendmsgN(from, m.Data, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if err == nil && n != len(m.Data) {
				err = fmt.Errorf("%d bytes of %d", n, len(m.Data))
			}
			if err != nil {
				return fmt.Errorf("%w: descriptor %d: what waited in the socket: %w", ErrFiles, f.FD, err)
			}
		}
	}
	for i := range files {
		f := &files[i]
		if paired(f) && f.Socket.Shut > 0 && !f.Socket.Alone {
			unix.Shutdown(d.ends[f.Inode], f.Socket.Shut-1)
		}
	}
	return nil
}

// bindNames binds Unix sockets to their names in the file system, in the process's folder,
// in place of the sockets that have been left there, and connects those that send to others
// by name.
func (r *restore) bindNames() error {
	var binds, connects []call
	for i := range r.state.Files {
		f := &r.state.Files[i]
		k := f.Socket
		if k == nil || k.Domain != unix.AF_UNIX || !f.First() || k.Paired() {
			continue
		}
		fd, what := uint64(f.FD), fmt.Sprintf("descriptor %d, a socket", f.FD)
		if hasName(k) {
			name := append(strings.Split(string(k.Local[2:]), "\x00")[:1:1], "")
			remove := call{what: what, nr: unix.SYS_UNLINK, data: []byte(strings.Join(name, "\x00")), may: true}
			if r.isSocket(name[0]) {
				if inUse(name[0]) {
					return fileError(name[0], "end it", "a socket of a running process has the name")
				}
				binds = append(binds, remove)
			}
			binds = append(binds, call{what: what, nr: unix.SYS_BIND, args: [6]uint64{fd, 0, uint64(len(k.Local))}, data: k.Local, at: 1})
			if k.Unlinked {
				binds = append(binds, remove)
			}
			if k.Listens {
				binds = append(binds, call{what: what, nr: unix.SYS_LISTEN, args: [6]uint64{fd, uint64(k.Backlog)}})
			}
		} else if len(k.Local) > 2 && len(k.Peer) > 0 {
			binds = append(binds, call{what: what, nr: unix.SYS_BIND, args: [6]uint64{fd, 0, uint64(len(k.Local))}, data: k.Local, at: 1})
		}
		if len(k.Peer) > 0 {
			connects = append(connects, call{what: what, nr: unix.SYS_CONNECT, args: [6]uint64{fd, 0, uint64(len(k.Peer))}, data: k.Peer, at: 1, may: true})
		}
	}
	return r.puppet.run(r.pid, append(binds, connects...))
}

// inUse tells whether a running process has bound a socket to the name. Of names that are
// not whole paths it cannot be told.
func inUse(path string) bool {
	p, err := os.ReadFile("/proc/net/unix")
	if err != nil || !filepath.IsAbs(path) {
		return false
	}
	for line := range strings.Lines(string(p)) {
		if strings.HasSuffix(strings.TrimSuffix(line, "\n"), " "+path) {
			return true
		}
	}
	return false
}

// isSocket tells whether a socket has the name, as the process sees it.
func (r *restore) isSocket(path string) bool {
	if !filepath.IsAbs(path) {
		path = filepath.Join(r.state.Dir, path)
	}
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK
}
