package ifaddr

import (
	"errors"
	"net/netip"
	"syscall"
)

// Loopback returns the address by which processes of this machine reach each other: 127.0.0.1, or ::1 where there is no
// IPv4, as in some containers.
func Loopback() netip.Addr {
	four := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if bindable(four) {
		return four
	}
	if six := netip.IPv6Loopback(); bindable(six) {
		return six
	}
	return four // the first use of it gets the error
}

// bindable reports whether a socket can be bound to an address. It tells only of the address: lack of descriptors is no answer.
func bindable(a netip.Addr) bool {
	family, to := syscall.AF_INET, syscall.Sockaddr(&syscall.SockaddrInet4{Addr: [4]byte(a.AsSlice()[:4])})
	if a.Is6() {
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Addr: a.As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = syscall.Bind(fd, to)
		syscall.Close(fd)
	}
	return !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.EAFNOSUPPORT)
}
