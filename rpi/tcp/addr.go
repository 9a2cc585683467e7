package tcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/internal/system/ifaddr"
	"golang.org/x/sys/unix"
)

// Byte orders as they are named on the wire.
const (
	littleEndian = endian.NameLittle
	bigEndian    = endian.NameBig
)

// nativeOrder is the byte order of this machine, hence of our payloads.
var nativeOrder = endian.Name

// addressVersion is that of a published address.
const addressVersion = 2

// addressMax bounds the IP addresses that a rank publishes, so that a machine with thousands of them does not make
// the addresses of a job large.
const addressMax = 32

// address is where a rank listens: one port, at each IP address of its machine. Published it is
//
//	0 version u8   1 byte order u8   2 port u16 LE   then for each IP address
//	0 bytes of it u8, 4 or 16   1 bits of its network u8   2 bytes of the interface's name u8   3 IP, name
type address struct {
	order byte
	port  uint16
	at    []ifaddr.Address
}

func (a address) encode() []byte {
	p := []byte{addressVersion, a.order, 0, 0}
	binary.LittleEndian.PutUint16(p[2:], a.port)
	for _, at := range a.at {
		ip := at.IP.AsSlice()
		p = append(p, byte(len(ip)), byte(at.Bits), byte(len(at.Interface)))
		p = append(append(p, ip...), at.Interface...)
	}
	return p
}

func decodeAddress(p []byte) (address, error) {
	if len(p) < 4 {
		return address{}, fmt.Errorf("tcp: address of %d bytes", len(p))
	}
	a := address{order: p[1], port: binary.LittleEndian.Uint16(p[2:])}
	switch {
	case p[0] != addressVersion:
		return address{}, fmt.Errorf("tcp: address of version %d, this is version %d", p[0], addressVersion)
	case a.order != littleEndian && a.order != bigEndian:
		return address{}, fmt.Errorf("tcp: address with byte order %d", a.order)
	case a.port == 0:
		return address{}, fmt.Errorf("tcp: address without a port")
	}
	for p = p[4:]; len(p) > 0; {
		if len(p) < 3 || len(p) < 3+int(p[0])+int(p[2]) || len(a.at) == addressMax {
			return address{}, fmt.Errorf("tcp: address with a list of IP addresses that is cut off or too long")
		}
		n := 3 + int(p[0])
		ip, ok := netip.AddrFromSlice(p[3:n])
		if !ok || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() || int(p[1]) > ip.BitLen() {
			return address{}, fmt.Errorf("tcp: address with an IP address of %d bytes and %d bits that nobody can have", p[0], p[1])
		}
		a.at = append(a.at, ifaddr.Address{Interface: string(p[n : n+int(p[2])]), IP: ip, Bits: int(p[1])})
		p = p[n+int(p[2]):]
	}
	if len(a.at) == 0 {
		return address{}, fmt.Errorf("tcp: address without an IP address")
	}
	return a, nil
}

// parseHost reads Env.Host. Names are not resolved here: that would link the resolver into every program.
func parseHost(host string) (netip.Addr, error) {
	if host == "" {
		return ifaddr.Loopback(), nil
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return ip, fmt.Errorf("tcp: host %q is not an IP address", host)
	case ip.Zone() != "":
		return ip, fmt.Errorf("tcp: host %q: an address with a zone means nothing to other hosts", host)
	case ip.IsUnspecified() || ip.IsMulticast():
		return ip, fmt.Errorf("tcp: host %q cannot be reached by other ranks", host)
	}
	return ip.Unmap(), nil
}

func sockaddr(a netip.AddrPort) (family int, sa unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}
