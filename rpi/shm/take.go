package shm

import (
	"sync/atomic"
	"unsafe"

	"github.com/gorun-mpi/gorun/rpi"
)

// quickLooks is how often TakeShort looks again at once, which takes little longer than to
// find that nothing else has come either, and sees what comes several times as soon.
const quickLooks = 16

// TakeShort takes the next message of a peer, if it is of that envelope and has room
// in buf. All that is not just as expected, also what is corrupt, is left to Poll.
func (m *Module) TakeShort(peer int, ctx uint64, tag int32, typ uint32, buf []byte) int {
	p := &m.peers[peer]
	in := &p.in
	if in.cells == nil {
		return m.nothing()
	}
	s := &m.spots[in.spot]
	w := atomic.LoadUint64(s.word)
	for looks := 0; uint16(w) != s.seq && looks < quickLooks; looks++ {
		w = atomic.LoadUint64(s.word)
	}
	if uint16(w) != s.seq || in.frame || in.half != 0 {
		return m.nothing()
	}
	c := (*cell)(unsafe.Pointer(s.word))
	n := int(w >> 24 & 0xff)
	if w>>16&0xff != formInline<<5|1 || in.part != 0 || n > inlineMax {
		if (w&^half)>>16&0xff == formLone<<5|1 && in.part == 0 {
			return m.takeLone(peer, p, s, c, w, ctx, tag, typ, buf)
		}
		return m.takeOdd(peer, p, s, ctx, tag, typ, buf)
	}
	if c.ctx != ctx || c.tag != tag || c.typ != typ || n > len(buf) {
		return rpi.TakeOther
	}
	if p.out.leased > 0 && !m.believe(peer, p, w) {
		return rpi.TakeOther
	}
	if n == 8 {
		*(*[8]byte)(buf) = *(*[8]byte)(c.body[:])
	} else {
		copy(buf, c.body[:n])
	}
	in.head++
	s.word, s.seq = in.wordOf(in.head), seqOf(in.head>>in.shift)
	if in.behind() {
		m.tell(peer, p)
	}
	return n
}

// believe hears what a cell says of this rank's own, and reports whether it can be. If
// not, nothing more is taken of the peer.
func (m *Module) believe(peer int, p *peer, w uint64) bool {
	m.heard(peer, uint32(w>>32))
	if p.down {
		m.spots[p.in.spot].shut()
	}
	return !p.down
}

// takeOdd is TakeShort for a message that shares its cell, or that is in two.
func (m *Module) takeOdd(peer int, p *peer, s *spot, ctx uint64, tag int32, typ uint32, buf []byte) int {
	in := &p.in
	c := &in.cells[in.head&in.mask]
	w := atomic.LoadUint64(&c.word)
	n := rpi.TakeOther
	if p.out.leased > 0 && !m.believe(peer, p, w) {
		return n
	}
	switch form := w >> 21 & 7; {
	case in.drained(w):
	case form == formInline || form == formOpen:
		n = in.takeInline(c, w, ctx, tag, typ, buf)
	case form == formPair && in.part == 0:
		n = in.takePair(c, w, ctx, tag, typ, buf)
	}
	if n >= 0 {
		in.look(s)
		if in.behind() {
			m.tell(peer, p)
		}
	}
	return n
}

// nothing says whether Poll would do something, when the peer asked for has sent
// nothing.
func (m *Module) nothing() int {
	if atomic.LoadUint32(m.arrivals) != m.seen || m.late.Load() ||
		len(m.busy)+len(m.starved)+len(m.broken)+len(m.leaving) > 0 {
		return rpi.TakeOther
	}
	for i := range m.spots {
		if m.spots[i].news() {
			return rpi.TakeOther
		}
	}
	m.assure()
	return rpi.TakeNone
}

// takeInline takes one message out of a cell that is its own or shared.
func (in *receiver) takeInline(c *cell, w uint64, ctx uint64, tag int32, typ uint32, buf []byte) int {
	n, count := lengthOf(w), int(w>>16&31)
	if n*count > hasRoom(w) || count <= in.part || n > len(buf) {
		return rpi.TakeOther
	}
	in.address(c, w)
	if e := &in.last; e.ctx != ctx || e.tag != tag || e.typ != typ {
		return rpi.TakeOther
	}
	body := c.bytes()[cellSize-hasRoom(w):]
	if n == 8 {
		*(*[8]byte)(buf) = *(*[8]byte)(body[8*in.part:])
	} else {
		copy(buf, body[n*in.part:][:n])
	}
	if in.part++; in.part == count && w>>21&7 == formInline {
		in.head, in.part = in.head+1, 0
	}
	return n
}

// takePair takes a message that is in two cells.
func (in *receiver) takePair(c *cell, w uint64, ctx uint64, tag int32, typ uint32, buf []byte) int {
	n := int(w >> 24 & 0xff)
	if n <= inlineMax || n > pairMax || w>>16&31 != uint64(rpi.Eager) || n > len(buf) || c.ctx != ctx || c.tag != tag || c.typ != typ {
		return rpi.TakeOther
	}
	copy(buf, c.body[:])
	copy(buf[inlineMax:n], in.cells[(in.head+1)&in.mask].rest().body[:])
	in.head += 2
	return n
}

// settleUp tells those peers how far this rank is of whom TakeShort has used up a chunk.
// That can wait until there is nothing else to do: an answer tells it by the way. But
// who goes on without either may compute for long, so no more than one chunk is kept of
// any peer, and none where there are fewer chunks of a kind than ranks that may do so.
func (m *Module) settleUp() {
	for _, peer := range m.owing {
		p := &m.peers[peer]
		if p.in.owing = false; p.in.owes && !p.down {
			m.tell(peer, p)
		}
	}
	m.owing = m.owing[:0]
}
