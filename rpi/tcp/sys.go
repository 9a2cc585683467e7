package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of the message path go to the kernel without telling Go's
// scheduler: none of them can block. All repeat on EINTR, which the runtime's
// preemption signals cause at any moment.

func recv(fd int, p []byte) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

func send(fd int, p []byte) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

// vector is the scratch memory of one scattered read or gathered write. It
// belongs to the module, on the heap, because the kernel gets its address.
type vector struct {
	hdr unix.Msghdr
	iov [2 * (heldMax + 1)]unix.Iovec
	n   int
}

func (v *vector) reset() { v.n = 0 }

func (v *vector) add(p []byte) {
	v.iov[v.n].Base = unsafe.SliceData(p)
	v.iov[v.n].SetLen(len(p))
	v.n++
}

func (v *vector) call(trap uintptr, fd int, flags uintptr) (int, syscall.Errno) {
	v.hdr.Iov = &v.iov[0]
	v.hdr.SetIovlen(v.n)
	for {
		n, _, e := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(&v.hdr)), flags)
		if e == unix.EINTR {
			continue
		}
		for i := range v.iov[:v.n] {
			v.iov[i].Base = nil // not to keep the user's memory alive
		}
		return int(n), e
	}
}

func (v *vector) recv(fd int) (int, syscall.Errno) { return v.call(unix.SYS_RECVMSG, fd, 0) }
func (v *vector) send(fd int) (int, syscall.Errno) {
	return v.call(unix.SYS_SENDMSG, fd, unix.MSG_NOSIGNAL)
}

// socket opens a non-blocking TCP socket with the buffer sizes of p. They are
// set before connect and listen: the window scale is agreed on in the SYN.
func (p *params) socket(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if p.congestion != "" {
		if err = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, p.congestion); err != nil && !p.tentative {
			unix.Close(fd)
			return -1, fmt.Errorf("tcp: congestion control %q: %w (see tcp.congestion in gorun info)", p.congestion, err)
		}
	}
	err = nil
	if p.sndbuf > 0 {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, p.sndbuf)
	}
	if p.rcvbuf > 0 && err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, p.rcvbuf)
	}
	if err == nil {
		err = noDelay(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("setsockopt", err)
	}
	return fd, nil
}

func noDelay(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
}

// listen opens a listener on an ephemeral port of ip. That of all IPv6 addresses takes IPv4, too.
func (p *params) listen(ip netip.Addr) (fd int, port uint16, err error) {
	family, sa := sockaddr(netip.AddrPortFrom(ip, 0))
	fd, err = p.socket(family)
	if ip == netip.IPv6Unspecified() && errors.Is(err, unix.EAFNOSUPPORT) {
		return p.listen(netip.IPv4Unspecified())
	}
	if err != nil {
		return -1, 0, fmt.Errorf("tcp: listen on %v: %w", ip, err)
	}
	if family == unix.AF_INET6 && ip.IsUnspecified() {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, sa)
	}
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		return fd, uint16(name.Port), nil
	case *unix.SockaddrInet6:
		return fd, uint16(name.Port), nil
	}
	unix.Close(fd)
	if err == nil {
		err = errors.New("a listener of an unknown family")
	}
	return -1, 0, fmt.Errorf("tcp: listen on %v: %w", ip, err)
}
