package rdma

import (
	"encoding/binary"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// A message of a queue pair, little-endian:
//
//	0 kind u8    2 credits u16   4 -u32    8 header of the frame    56 payload, or the key
//
// A Done and a Credit are 8 bytes.
const (
	kindFrame    = 1 + iota
	kindAnnounce // the payload is to be read
	kindDone     // the oldest announced payload has been read
	kindCredit   // only credits
)

const (
	shortSize = 8
	frameAt   = 8
	payloadAt = frameAt + rpi.HeaderSize
	keySize   = 48
)

// put writes what all messages begin with.
func put(p []byte, kind byte, credits int) {
	p[0], p[1] = kind, 0
	binary.LittleEndian.PutUint16(p[2:], uint16(credits))
	binary.LittleEndian.PutUint32(p[4:], 0)
}

// message is one that has arrived. Its payload stays where it is.
type message struct {
	kind    byte
	credits int
	h       rpi.Header
	payload []byte
	key     virtual.RemoteRegion
}

// parse reads a message. It reports whether there can be such a one.
func (m *message) parse(p []byte) bool {
	if len(p) < shortSize {
		return false
	}
	m.kind, m.credits = p[0], int(binary.LittleEndian.Uint16(p[2:]))
	switch m.kind {
	case kindDone, kindCredit:
		return len(p) == shortSize
	case kindFrame, kindAnnounce:
	default:
		return false
	}
	if len(p) < payloadAt || !m.h.Decode(p[frameAt:]) {
		return false
	}
	m.payload = p[payloadAt:]
	if m.kind == kindFrame {
		return len(m.payload) == m.h.PayloadLen()
	}
	if len(m.payload) != keySize {
		return false
	}
	m.key = getKey(m.payload)
	return m.h.PayloadLen() > 0 && m.key.Length == m.h.PayloadLen()
}

func putKey(p []byte, k *virtual.RemoteRegion) {
	for i, v := range []uint64{uint64(k.Region), uint64(k.Domain), uint64(k.Length), k.Real.Address, k.Real.Key, 0} {
		binary.LittleEndian.PutUint64(p[8*i:], v)
	}
}

func getKey(p []byte) virtual.RemoteRegion {
	u := func(i int) uint64 { return binary.LittleEndian.Uint64(p[8*i:]) }
	return virtual.RemoteRegion{Region: virtual.ID(u(0)), Domain: virtual.ID(u(1)), Length: int(u(2)), Real: provider.Remote{Address: u(3), Key: u(4)}}
}
