package soft

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/system/ifaddr"
	"github.com/gorun-mpi/gorun/internal/system/procfs"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

const (
	udpMTU    = 8 << 10
	udpWait   = 2 * time.Millisecond // for an answer, at first
	udpBuffer = 4 << 20
)

func init() { provider.Register(Provider{}, 100) }

// Provider is the provider over UDP.
type Provider struct{}

// Name is "soft".
func (Provider) Name() string { return "soft" }

// List returns a device for each address of this machine that others may reach, and the loopback device, which is the first.
func (Provider) List() ([]provider.Info, error) {
	list := []provider.Info{about(ifaddr.Loopback())}
	addresses, err := ifaddr.Addresses(nil)
	if err != nil {
		return list, nil // the loopback device is there
	}
	for _, a := range addresses {
		list = append(list, about(a.IP))
	}
	return list, nil
}

func about(ip netip.Addr) provider.Info {
	network := "udp"
	if ip.IsLoopback() {
		network = machine()
	}
	return provider.Info{Name: ip.String(), Detail: "queue pairs in software, over UDP", Network: network, Manual: true}
}

// machine names what loopback addresses reach: this network namespace of this machine.
func machine() string {
	boot, err := procfs.BootID()
	if err != nil {
		return ""
	}
	ns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	return provider.OneMachine + boot + " " + ns
}

// Open opens a device at an address of this machine, and a port of its own.
func (Provider) Open(name string) (provider.Device, error) {
	if name == "" {
		name = ifaddr.Loopback().String()
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return nil, fmt.Errorf("soft: device %q is no address", name)
	}
	n := &udp{fd: -1, tfd: -1, peers: map[string]unix.Sockaddr{}, begin: time.Now()}
	if err := n.open(ip); err != nil {
		n.close()
		return nil, fmt.Errorf("soft: device %s: %w", name, err)
	}
	return newDevice(n, about(ip), udpMTU), nil
}

// udp is a socket.
type udp struct {
	fd, tfd int
	six     bool
	own     []byte
	peers   map[string]unix.Sockaddr
	begin   time.Time
	set     int64 // the timer
	trouble bool  // the kernel has something to tell
}

func (n *udp) open(ip netip.Addr) (err error) {
	family := unix.AF_INET
	if n.six = ip.Is6(); n.six {
		family = unix.AF_INET6
	}
	if n.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		n.fd = -1
		return err
	}
	if n.tfd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		n.tfd = -1
		return err
	}
	for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		_ = unix.SetsockoptInt(n.fd, unix.SOL_SOCKET, option, udpBuffer) // the kernel grants what it allows
	}
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if n.six {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	if err = unix.SetsockoptInt(n.fd, level, option, 1); err != nil {
		return err
	}
	if err = unix.Bind(n.fd, sockaddr(netip.AddrPortFrom(ip, 0))); err != nil {
		return err
	}
	sa, err := unix.Getsockname(n.fd)
	if err != nil {
		return err
	}
	n.own, err = addrPort(sa).MarshalBinary()
	return err
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

func (n *udp) address() []byte { return n.own }

// send sends a datagram. What the kernel does not take is lost, and will be sent again.
func (n *udp) send(to []byte, b []byte) {
	sa := n.peers[string(to)]
	if sa == nil {
		var a netip.AddrPort
		if a.UnmarshalBinary(to) != nil || a.Addr().Is6() != n.six {
			return
		}
		sa = sockaddr(a)
		n.peers[string(to)] = sa
	}
	err := unix.Sendto(n.fd, b, unix.MSG_NOSIGNAL, sa)
	n.trouble = n.trouble || errors.Is(err, unix.ECONNREFUSED)
	if errors.Is(err, unix.ECONNREFUSED) { // that was of an earlier one
		_ = unix.Sendto(n.fd, b, unix.MSG_NOSIGNAL, sa)
	}
}

func (n *udp) receive(b []byte) (int, bool) {
	for {
		got, err := unix.Read(n.fd, b)
		switch {
		case err == nil:
			return got, true
		case errors.Is(err, unix.EAGAIN):
			return 0, false
		case errors.Is(err, unix.EINTR):
		default:
			n.trouble = true // the next call has what came
			if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EHOSTUNREACH) {
				return 0, false
			}
		}
	}
}

// unreachable takes what the kernel has heard of ports that are closed.
func (n *udp) unreachable() ([]byte, bool) {
	if !n.trouble {
		return nil, false
	}
	var b [16]byte
	var control [512]byte
	for n.trouble {
		_, cn, _, from, err := unix.Recvmsg(n.fd, b[:], control[:], unix.MSG_ERRQUEUE)
		if err != nil {
			n.trouble = false
			break
		}
		messages, err := unix.ParseSocketControlMessage(control[:cn])
		if err != nil || from == nil {
			continue
		}
		for _, m := range messages { // struct sock_extended_err begins with the errno
			if len(m.Data) >= 4 && unix.Errno(binary.NativeEndian.Uint32(m.Data)) == unix.ECONNREFUSED {
				if a, err := addrPort(from).MarshalBinary(); err == nil {
					return a, true
				}
			}
		}
	}
	return nil, false
}

func (n *udp) now() int64  { return int64(time.Since(n.begin)) + 1 }
func (n *udp) wait() int64 { return int64(udpWait) }

// alarm has a waiter look again when something may have to be sent again.
func (n *udp) alarm(at int64) {
	if at == n.set {
		return
	}
	n.set = at
	var spec unix.ItimerSpec
	if at != 0 {
		spec.Value = unix.NsecToTimespec(max(1, at-n.now()))
	}
	_ = unix.TimerfdSettime(n.tfd, 0, &spec, nil) // it takes any positive time
}

func (n *udp) descriptors() []int { return []int{n.fd, n.tfd} }
func (n *udp) late(room int) int  { return room }
func (n *udp) pick(int) int       { return 0 }

func (n *udp) random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:])
}

func (n *udp) close() {
	for _, fd := range []int{n.fd, n.tfd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	n.fd, n.tfd = -1, -1
}
