package sim

import (
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// cell is shared memory with messages of one envelope and length, which the receiver
// reads in place:
//
//	one message        of any length; of a longer one the second half may come later
//	one, and others    as long as it is open the engine itself adds to it (shared.Open)
//
// Cells are only used while nothing is in the wire, so they come before what is there.
type cell struct {
	h    rpi.Header // of each message
	mem  [shared.OpenMax]byte
	long []byte // the payload of one that has no room there
	rest []byte // its second half, as long as that is not written
	word uint64 // how many messages there are, and cellOpen
	part int    // of them delivered
}

// cellOpen says that messages may be added. The last one for which there is room clears it.
const cellOpen = 1 << 32

// mostCells is how many cells a connection has.
const mostCells = 4

func (l *cell) count() int { return int(atomic.LoadUint64(&l.word) &^ cellOpen) }

// body is the payloads of the messages that are there.
func (l *cell) body() []byte {
	if l.long != nil {
		return l.long
	}
	return l.mem[:l.count()*int(l.h.Len)]
}

// next is the payload of the next message.
func (l *cell) next() []byte { return l.body()[l.part*int(l.h.Len):][:l.h.Len] }

// fill writes what is missing of the payload.
func (l *cell) fill() {
	copy(l.long[len(l.long)-len(l.rest):], l.rest)
	l.rest = nil
}

// unread reports whether there is a message in a cell.
func (c *conn) unread() bool {
	for _, l := range c.cells {
		if l.count() > l.part {
			return true
		}
	}
	return false
}

// publish leaves a message in a cell. The engine may add to it if open.
func (c *conn) publish(h *rpi.Header, payload []byte, open bool) {
	l := &cell{h: *h, word: 1}
	n := len(payload)
	switch rng := c.w.rng; {
	case n > len(l.mem) || n > 16 && rng.IntN(2) == 0:
		if l.long = append(l.long, payload...); n >= 32 && rng.IntN(2) == 0 {
			l.rest = append(l.rest, payload[n/2:]...)
			clear(l.long[n/2:])
			c.w.seen.halves++
		}
	default:
		copy(l.mem[:], payload)
		if room := mostAlike; open {
			if n > 0 {
				room = min(room, len(l.mem)/n)
			}
			c.begin(l, n, room-1)
		}
	}
	c.cells = append(c.cells, l)
	c.w.seen.slots++
}

// mostAlike is how many messages a cell holds.
const mostAlike = 12

// begin makes it the open cell.
func (c *conn) begin(l *cell, n, left int) {
	if left == 0 {
		return
	}
	l.word |= cellOpen
	c.open = shared.Open{
		Size: n + 1, Ctx: l.h.Ctx, Tag: l.h.Tag, Type: l.h.Type,
		Body: &l.mem, At: uint32(n), Left: uint32(left),
		Word: &l.word, Value: l.word, Each: 1, Last: cellOpen,
	}
}

// shut closes the open cell.
func (c *conn) shut() { c.open.Size = 0 }

// over reports whether all messages of the first cell are delivered and none is added
// any more: it was the last for which there was room, or something follows.
func (c *conn) over() bool {
	l := c.cells[0]
	if l.part < l.count() {
		return false
	}
	return atomic.LoadUint64(&l.word)&cellOpen == 0 || c.open.Size == 0 || c.open.Word != &l.word ||
		len(c.cells) > 1 || len(c.wire) > 0
}

// sweep takes cells away that are over.
func (c *conn) sweep() {
	for len(c.cells) > 0 && c.over() {
		c.cells = c.cells[1:]
	}
}

// read delivers what is in the cells, or some of it.
func (c *conn) read(m *module) (moved bool) {
	for c.sweep(); len(c.cells) > 0; c.sweep() {
		l := c.cells[0]
		if l.part == l.count() || !c.whole(m, l) {
			return moved
		}
		moved = true
		if c.deliver(m, l) || !m.quiesced && c.w.rng.IntN(3) == 0 {
			return true
		}
	}
	return moved
}

// finish writes what was begun.
func (c *conn) finish() {
	for _, l := range c.cells {
		if l.rest != nil && !c.w.breaks(halfAtGate) {
			l.fill()
		}
	}
}

// whole reports whether all of the next message is there. Who closes its gate has
// written what it had begun.
func (c *conn) whole(m *module, l *cell) bool {
	if c.w.breaks(halfAsWhole) || c.w.breaks(halfAtGate) && m.quiesced {
		l.rest = nil
	}
	if l.rest != nil && c.w.rng.IntN(3) == 0 {
		l.fill()
	}
	return l.rest == nil
}

// deliver delivers messages of a cell, and reports whether the engine has enough.
func (c *conn) deliver(m *module, l *cell) (enough bool) {
	w := c.w
	w.touched(m.rank, "a cell is read")
	if n := l.count() - l.part; n > 1 && w.rng.IntN(4) > 0 {
		taken, enough := m.sink.(shared.AlikeSink).DeliverAlike(c.from, &l.h, l.body()[l.part*int(l.h.Len):], n)
		if w.seen.alike += taken; taken > 0 && w.breaks(alikeOneLost) {
			taken = min(taken+1, n)
		} else if taken > 0 && w.breaks(alikeOneTwice) {
			taken--
		}
		if l.part += taken; taken > 0 {
			return enough
		}
	}
	enough = m.deliver(c.from, &l.h, l.next())
	l.part++
	return enough
}

// deliver gives the engine a whole frame, in one of two ways.
func (m *module) deliver(from int, h *rpi.Header, payload []byte) (enough bool) {
	w := m.f.w
	if w.shape.whole && w.rng.IntN(4) > 0 {
		w.seen.whole++
		err := m.sink.Deliver(from, h, payload)
		if rpi.IsEnough(err) {
			w.seen.enough++
			return true
		}
		m.accepted(from, err)
		return false
	}
	dst, err := m.sink.Begin(from, h)
	m.accepted(from, err)
	copy(dst, payload)
	m.sink.End(from)
	return false
}

// accepted ends the schedule if the engine calls a frame corrupt.
func (m *module) accepted(from int, err error) {
	if err != nil {
		m.f.w.violate("rank %d refuses a frame of rank %d: %v", m.rank, from, err)
	}
}
