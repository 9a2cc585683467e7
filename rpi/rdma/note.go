package rdma

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// note is what a rank tells a peer beside the queue pairs. Little-endian:
//
//	0 magic u32     8 from u32    16 incarnation u64   32 yours u64    48 domain u64   64 echo u64     80 received u64
//	4 flags u32    12 to u32      24 pair u64          40 depth u64    56 nonce u64    72 posted u64   88 address, HMAC-SHA256
type note struct {
	flags       noteFlags
	from, to    int
	incarnation uint64
	pair        virtual.ID // of this rank for the peer
	yours       virtual.ID // of the peer, which pair is connected to; 0: none yet
	domain      virtual.ID // of pair
	depth       int        // credits that the peer may use
	nonce       uint64     // of this rank's attempt to take a checkpoint
	echo        uint64     // the peer's, as this rank knows it
	posted      uint64     // messages of the pair
	received    uint64
	address     []byte // of pair
}

type noteFlags uint32

const (
	noteAsk      noteFlags = 1 << iota // answer
	noteQuiesced                       // no frame will be posted
	noteIdle                           // nor anything else, unless a frame comes; nothing is under way
)

const (
	noteMagic = 0x6d645267
	noteFixed = 88
	noteMax   = noteFixed + realMax + sha256.Size
)

func (n *note) encode(secret []byte) []byte {
	le := binary.LittleEndian
	p := make([]byte, 0, noteMax)
	for _, v := range []uint32{noteMagic, uint32(n.flags), uint32(n.from), uint32(n.to)} {
		p = le.AppendUint32(p, v)
	}
	for _, v := range []uint64{n.incarnation, uint64(n.pair), uint64(n.yours), uint64(n.depth), uint64(n.domain), n.nonce, n.echo, n.posted, n.received} {
		p = le.AppendUint64(p, v)
	}
	p = append(p, n.address...)
	return append(p, seal(secret, p)...)
}

func seal(secret, p []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("gorun rdma note\x00"))
	h.Write(p)
	return h.Sum(nil)
}

// decodeNote reads a datagram. It reports whether its sender knows the secret. The address is a
// part of p.
func decodeNote(p, secret []byte) (n note, ok bool) {
	le := binary.LittleEndian
	end := len(p) - sha256.Size
	if end < noteFixed || end > noteFixed+realMax || le.Uint32(p) != noteMagic || !hmac.Equal(p[end:], seal(secret, p[:end])) {
		return n, false
	}
	u := func(at int) uint64 { return le.Uint64(p[at:]) }
	n = note{flags: noteFlags(le.Uint32(p[4:])), from: int(le.Uint32(p[8:])), to: int(le.Uint32(p[12:])), incarnation: u(16), pair: virtual.ID(u(24)),
		yours: virtual.ID(u(32)), domain: virtual.ID(u(48)), nonce: u(56), echo: u(64), posted: u(72), received: u(80), address: p[noteFixed:end]}
	if d := u(40); d <= 1<<16 {
		n.depth = int(d)
	} else {
		return n, false
	}
	return n, true
}
