package ofi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// peer is a device that pairs are connected to.
type peer struct {
	key    string
	number uint64 // in libfabric's address vector
	pulse  unix.Sockaddr
	socket int // connected to the pulse; -1: not yet
	looked int64
	lost   bool
}

// pulse is a socket that only says that the process is there. What comes is not read.
type pulse struct {
	fd   int
	name []byte // for the peers; empty: libfabric's address has none that a socket could have
}

// newPulse makes one at an address of libfabric.
func newPulse(address []byte) (*pulse, error) {
	p := &pulse{fd: -1}
	sa, name := socketAt(address)
	if sa == nil {
		return p, nil
	}
	family := unix.AF_UNIX
	switch sa.(type) {
	case *unix.SockaddrInet4:
		family = unix.AF_INET
	case *unix.SockaddrInet6:
		family = unix.AF_INET6
	}
	var err error
	if p.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("ofi: socket: %w", err)
	}
	if err = unix.Bind(p.fd, sa); err == nil && name == nil {
		sa, err = unix.Getsockname(p.fd)
		name = ipName(sa)
	}
	if err != nil {
		unix.Close(p.fd)
		return nil, fmt.Errorf("ofi: socket: %w", err)
	}
	p.name = name
	return p, nil
}

// socketAt returns where to bind the pulse of a device: an abstract name, or the IP address that libfabric uses.
func socketAt(address []byte) (unix.Sockaddr, []byte) {
	if strings.HasPrefix(string(address), shmScheme) {
		name := "@" + strings.TrimRight(string(address[len(shmScheme):]), "\x00")
		return &unix.SockaddrUnix{Name: name}, []byte(name)
	}
	if len(address) < 16 {
		return nil, nil
	}
	switch binary.NativeEndian.Uint16(address) {
	case unix.AF_INET:
		return &unix.SockaddrInet4{Addr: [4]byte(address[4:8])}, nil
	case unix.AF_INET6:
		if len(address) >= 28 {
			return &unix.SockaddrInet6{Addr: [16]byte(address[8:24]), ZoneId: binary.NativeEndian.Uint32(address[24:])}, nil
		}
	}
	return nil, nil
}

func ipName(sa unix.Sockaddr) []byte {
	var a netip.AddrPort
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		a = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		a = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	b, _ := a.MarshalBinary() // never an error
	return b
}

// parsePulse reads what newPulse wrote.
func parsePulse(name []byte) (unix.Sockaddr, error) {
	if len(name) == 0 {
		return nil, nil
	}
	if name[0] == '@' {
		return &unix.SockaddrUnix{Name: string(name)}, nil
	}
	var a netip.AddrPort
	if err := a.UnmarshalBinary(name); err != nil {
		return nil, errAddress
	}
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: a.Addr().As4(), Port: int(a.Port())}, nil
	}
	return &unix.SockaddrInet6{Addr: a.Addr().As16(), Port: int(a.Port())}, nil
}

func (p *pulse) close() {
	if p != nil && p.fd >= 0 {
		unix.Close(p.fd)
	}
}

// alive reports whether the peer's process is there, as far as the kernel tells.
func (p *peer) alive() bool {
	if p.pulse == nil {
		return true
	}
	if p.socket < 0 {
		family := unix.AF_UNIX
		switch p.pulse.(type) {
		case *unix.SockaddrInet4:
			family = unix.AF_INET
		case *unix.SockaddrInet6:
			family = unix.AF_INET6
		}
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return true // because no descriptors are left
		}
		if err := unix.Connect(fd, p.pulse); err != nil {
			unix.Close(fd)
			return !errors.Is(err, unix.ECONNREFUSED)
		}
		p.socket = fd
	}
	_, err := unix.Write(p.socket, nil)
	return !errors.Is(err, unix.ECONNREFUSED)
}

func (p *peer) close() {
	if p.socket >= 0 {
		unix.Close(p.socket)
		p.socket = -1
	}
}

// lookAfterPeers checks whether peers that have owed an answer for a second are alive.
func (d *Device) lookAfterPeers() {
	at := now()
	for _, q := range d.pairs {
		p := q.peer
		if p == nil || !q.waits() || at-p.looked < int64(lookTime) {
			continue
		}
		p.looked = at
		if !p.alive() {
			d.lose(p)
		}
	}
}

var errAddress = errors.New("ofi: not an address of this provider")

// reach returns the peer of an address that a pair of it has told.
func (d *Device) reach(raw, pulse []byte) (*peer, error) {
	key := string(raw) + string(pulse)
	if p := d.peers[key]; p != nil {
		return p, nil
	}
	sa, err := parsePulse(pulse)
	if err != nil {
		return nil, err
	}
	number, err := d.end.insert(raw)
	if err != nil {
		return nil, err
	}
	p := &peer{key: key, number: number, pulse: sa, socket: -1, looked: now()}
	d.peers[key] = p
	return p, nil
}
