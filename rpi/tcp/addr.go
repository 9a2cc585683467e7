package tcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/gorun-mpi/gorun/internal/endian"
	"golang.org/x/sys/unix"
)

// Byte orders as they are named on the wire.
const (
	littleEndian = endian.NameLittle
	bigEndian    = endian.NameBig
)

// nativeOrder is the byte order of this machine, hence of our payloads.
var nativeOrder = endian.Name

// address is where a rank listens. Published it is
//
//	0 version u8   1 byte order u8   2 port u16 LE   4 IP, 4 or 16 bytes
type address struct {
	order byte
	ip    netip.AddrPort
}

func (a address) encode() []byte {
	p := []byte{version, a.order, 0, 0}
	binary.LittleEndian.PutUint16(p[2:], a.ip.Port())
	return append(p, a.ip.Addr().AsSlice()...)
}

func decodeAddress(p []byte) (address, error) {
	if len(p) != 4+4 && len(p) != 4+16 {
		return address{}, fmt.Errorf("tcp: address of %d bytes", len(p))
	}
	if p[0] != version {
		return address{}, fmt.Errorf("tcp: address of version %d, this is version %d", p[0], version)
	}
	if p[1] != littleEndian && p[1] != bigEndian {
		return address{}, fmt.Errorf("tcp: address with byte order %d", p[1])
	}
	ip, _ := netip.AddrFromSlice(p[4:])
	port := binary.LittleEndian.Uint16(p[2:])
	if port == 0 {
		return address{}, fmt.Errorf("tcp: address without a port")
	}
	return address{order: p[1], ip: netip.AddrPortFrom(ip, port)}, nil
}

// parseHost turns Env.Host into the address to listen on. Names are not
// resolved here: that would link the resolver into every program.
func parseHost(host string) (netip.Addr, error) {
	if host == "" {
		host = "127.0.0.1"
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
