package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/gorun-mpi/gorun/internal/system/endian"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

const (
	addressVersion = 1
	addressMax     = 32  // IP addresses of a rank
	linksMax       = 256 // of a rank: one that has more makes all its connections again
	realMax        = 512 // bytes of a pair's address
)

// address is what a rank publishes. All numbers are little-endian:
//
//	version u8  byte order u8  port u16  rdma.depth u16
//	provider: u8, bytes    network: u8, bytes
//	IP addresses: u8, each u8 (4 or 16), bytes
//	links: u16, each to u32, pair u64, domain u64, partner u64, address u16, bytes
type address struct {
	order             byte
	port              uint16
	depth             int
	provider, network string
	at                []netip.Addr // where notes are heard
	links             []link
}

// link is a connection that has come through a restart, as one end publishes it.
type link struct {
	to      int              // rank
	partner virtual.ID       // its pair
	own     virtual.PeerPair // this end
}

func (a *address) encode() []byte {
	le := binary.LittleEndian
	p := []byte{addressVersion, a.order}
	p = le.AppendUint16(p, a.port)
	p = le.AppendUint16(p, uint16(a.depth))
	for _, s := range []string{a.provider, a.network} {
		s = s[:min(len(s), 255)]
		p = append(append(p, byte(len(s))), s...)
	}
	p = append(p, byte(len(a.at)))
	for _, ip := range a.at {
		b := ip.AsSlice()
		p = append(append(p, byte(len(b))), b...)
	}
	p = le.AppendUint16(p, uint16(len(a.links)))
	for _, l := range a.links {
		p = le.AppendUint32(p, uint32(l.to))
		for _, id := range []virtual.ID{l.own.Pair, l.own.Domain, l.partner} {
			p = le.AppendUint64(p, uint64(id))
		}
		p = le.AppendUint16(p, uint16(len(l.own.Address)))
		p = append(p, l.own.Address...)
	}
	return p
}

// reader takes pieces off the front of bytes from outside. After the first piece that is missing all are zero.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) bytes(n int) []byte {
	if r.bad || n > len(r.p) {
		r.bad = true
		return make([]byte, n) // n is bounded by the callers
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) u8() int     { return int(r.bytes(1)[0]) }
func (r *reader) u16() int    { return int(binary.LittleEndian.Uint16(r.bytes(2))) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }

var errAddress = errors.New("rdma: not an address of this transport")

func decodeAddress(p []byte) (a address, err error) {
	r := reader{p: p}
	if v := r.u8(); v != addressVersion {
		return a, fmt.Errorf("%w: version %d, this is version %d", errAddress, v, addressVersion)
	}
	a.order = byte(r.u8())
	a.port = uint16(r.u16())
	a.depth = r.u16()
	a.provider = string(r.bytes(r.u8()))
	a.network = string(r.bytes(r.u8()))
	n := r.u8()
	if n > addressMax {
		return a, fmt.Errorf("%w: %d IP addresses", errAddress, n)
	}
	for range n {
		ip, ok := netip.AddrFromSlice(r.bytes(r.u8()))
		if !ok || r.bad {
			return a, fmt.Errorf("%w: an IP address", errAddress)
		}
		a.at = append(a.at, ip)
	}
	n = r.u16()
	for range n {
		l := link{to: int(r.u32())}
		l.own.Pair, l.own.Domain, l.partner = virtual.ID(r.u64()), virtual.ID(r.u64()), virtual.ID(r.u64())
		size := r.u16()
		if r.bad || n > linksMax || size > realMax {
			return a, fmt.Errorf("%w: its links", errAddress)
		}
		l.own.Address = append([]byte(nil), r.bytes(size)...)
		a.links = append(a.links, l)
	}
	if r.bad || len(r.p) > 0 || a.port == 0 || len(a.at) == 0 || a.depth == 0 || a.order != endian.NameLittle && a.order != endian.NameBig {
		return a, errAddress
	}
	return a, nil
}
