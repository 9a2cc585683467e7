package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/move"
	"github.com/gorun-mpi/gorun/internal/release"
	"github.com/gorun-mpi/gorun/rpi"
)

// Most messages of some length are plain ones whose payload is in one chunk. They need
// no header, and who waits for one takes it straight from there.

const (
	mostLone    = largeChunk / 2 // bytes of the longest
	leastHalved = 2 << 10        // of the shortest that is shown when half of it is there
)

// lone is a cell of formLone or formHalf.
type lone struct {
	word  uint64
	ctx   uint64
	tag   int32
	typ   uint32
	place uint64 // where in the sender's segment the payload is, 32 bits, and its length
}

func (l *lone) put(ctx uint64, tag int32, typ uint32, place uint64) {
	l.ctx, l.tag, l.typ, l.place = ctx, tag, typ, place
}

// half is the bit that tells formHalf from formLone.
const half = 1 << formShift

// halfOf is how much of a payload of n bytes is there at formHalf.
func halfOf(n int) int { return min(n, (n/2+line-1)&^(line-1)) }

// sendLone sends an eager message by way of one chunk. False: there is none. A receiver
// who has used up all else is likely to wait: it copies the first half of a longer
// payload while the sender fills in the second. If it sleeps it is woken before that.
func (m *Module) sendLone(peer int, ctx uint64, tag int32, typ uint32, payload []byte, more bool) bool {
	id, ok := m.pool.get(len(payload))
	if !ok {
		if m.reclaim(); m.peers[peer].down {
			return false
		}
		if id, ok = m.pool.get(len(payload)); !ok {
			return false
		}
	}
	p := &m.peers[peer]
	o := &p.out
	at, _ := m.pool.chunk(id)
	i := o.tail & o.mask
	o.leases[i] = id + 1
	o.leased++
	c := &o.cells[i]
	to, place := m.mem[at:], uint64(at)|uint64(len(payload))<<32
	w := word(seqOf(o.tail>>o.shift), 1, formLone, 0, p.in.head)
	if k := halfOf(len(payload)); len(payload) >= leastHalved && o.used == o.tail && !more {
		move.Bytes(to, payload[:k])
		c.lone().put(ctx, tag, typ, place)
		release.Store(&c.word, w|half)
		ring(p.bell)
		move.Bytes(to[k:], payload[k:])
	} else {
		// The cell comes last: whoever looks at it takes its line away, again and again.
		move.Bytes(to, payload)
		c.lone().put(ctx, tag, typ, place)
	}
	o.tail++
	m.put(peer, p, c, w, more)
	return true
}

// lonely returns the payload of such a cell, nil if there can be none. What is checked
// is what is used: its place is read once.
func (m *Module) lonely(p *peer, c *cell) []byte {
	place := atomic.LoadUint64(&c.lone().place)
	at, n := int(uint32(place)), int(place>>32)
	if n == 0 || n > mostLone || at < m.layout.pool || n > m.layout.size-at {
		return nil
	}
	p.in.long = false
	return m.payload(p, at, n)
}

// lone delivers a message.
func (m *Module) lone(peer int, p *peer, c *cell, w uint64) error {
	in := &p.in
	payload := m.lonely(p, c)
	if payload == nil || w>>16&31 != 1 || in.frame || in.part != 0 {
		return fmt.Errorf("%w: %d bytes in a chunk", ErrCorrupt, len(payload))
	}
	h := &m.hdr
	h.Kind, h.Flags, h.Tag, h.Type, h.Ctx = rpi.Eager, 0, c.tag, c.typ, c.ctx
	h.Len, h.Req, h.Off = uint64(len(payload)), 0, 0
	err := m.env.Sink.Deliver(peer, h, payload)
	if err != nil && !rpi.IsEnough(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	in.head++
	in.owes = true
	return err
}

// halved leaves a message of which one half is there until the other is, which changes
// the word of its cell: the sender is writing it. No cell can follow before.
func (in *receiver) halved(w uint64) error {
	if in.frame || in.part != 0 || in.valid(in.head+1) && atomic.LoadUint64(in.wordOf(in.head)) == w {
		return fmt.Errorf("%w: half a message", ErrCorrupt)
	}
	in.half = w
	return rpi.Enough
}

// halfLooks is how often a receiver looks for the second half: a few microseconds.
const halfLooks = 10000

// takeLone is TakeShort for such a message. If only half of it comes that is in buf, and
// the message is left to Poll.
func (m *Module) takeLone(peer int, p *peer, s *spot, c *cell, w, ctx uint64, tag int32, typ uint32, buf []byte) int {
	in := &p.in
	if c.ctx != ctx || c.tag != tag || c.typ != typ {
		return rpi.TakeOther
	}
	if p.out.leased > 0 && !m.believe(peer, p, w) {
		return rpi.TakeOther
	}
	payload := m.lonely(p, c)
	n := len(payload)
	if n == 0 || n > len(buf) {
		return rpi.TakeOther
	}
	if w&half != 0 {
		k := halfOf(n)
		move.Bytes(buf, payload[:k])
		for looks := 0; atomic.LoadUint64(&c.word) != w&^half; looks++ {
			if looks == halfLooks {
				return rpi.TakePart
			}
		}
		buf, payload = buf[k:], payload[k:]
	}
	move.Bytes(buf, payload)
	in.head++
	s.word, s.seq = in.wordOf(in.head), seqOf(in.head>>in.shift)
	m.owe(peer, p)
	return n
}

// owe notes that TakeShort has used up a chunk of the peer's: see settleUp.
func (m *Module) owe(peer int, p *peer) {
	in := &p.in
	switch {
	case !m.lends || in.behind():
		m.tell(peer, p)
	case in.owing:
		in.owes = true
	default:
		in.owes, in.owing = true, true
		m.owing = append(m.owing, peer)
	}
}
