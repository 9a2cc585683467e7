package sim

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// conn is a one-way connection:
//
//	sender: batch, rest, held -> wire (window) -> receiver: header, payload
//	                          -> cells, read in place, before anything in the wire
//	                          -> puts, direct writes under way
//
// A connection begins when the sender knocks (syn), is half open once the
// receiver has answered (accepted), and open when the sender has seen that.
type conn struct {
	silent   int64 // since when nothing has come back, see suspects; 0: something has
	w        *world
	from, to int
	state    connState
	refused  bool // the engine was told Full and waits for Writable

	batch []byte // accepted, held back
	rest  []byte // accepted, copied: what did not fit of a frame
	held  []byte // accepted, the engine's: what did not fit of a payload
	ref   rpi.Ref

	wire []byte // in the sockets
	wr   uint64 // bytes ever written into wire
	rd   uint64 // bytes ever read from it
	puts []put
	jam  bool // full for the next frame

	cells []*cell
	open  shared.Open // the last of them, if the engine may add to it

	head  [rpi.HeaderSize]byte // the arriving frame
	nhead int
	h     rpi.Header
	body  bool
	dst   []byte
	need  int // payload bytes to come

	inSending, inArriving bool
}

type connState uint8

const (
	connNone connState = iota
	connSyn
	connAccepted
	connOpen
)

func (c *conn) String() string {
	return fmt.Sprintf("%d to %d: state %d, batch %d, rest %d, held %d, wire %d, puts %d, cells %d, open %v, frame begun %v",
		c.from, c.to, c.state, len(c.batch), len(c.rest), len(c.held), len(c.wire), len(c.puts), len(c.cells), c.open.Size != 0, c.nhead > 0 || c.body)
}

// idle reports whether nothing is under way to the receiver.
func (c *conn) idle() bool {
	return len(c.batch)+len(c.rest)+len(c.held)+len(c.wire) == 0 && !c.unread() && c.nhead == 0 && !c.body
}

// atRest is idle with no handshake, no direct write and no open cell: what it must be at
// a cut.
func (c *conn) atRest() bool {
	return c.idle() && len(c.puts) == 0 && c.open.Size == 0 && c.state != connSyn && c.state != connAccepted
}

func (c *conn) sent() bool {
	return len(c.batch)+len(c.rest)+len(c.held)+len(c.puts) == 0 && !c.refused && c.open.Size == 0 &&
		(c.state == connNone || c.state == connOpen)
}

func (c *conn) received() bool {
	return len(c.wire)+len(c.puts)+len(c.cells) == 0 && c.nhead == 0 && !c.body && c.state != connSyn
}

// lost drops what was under way.
func (c *conn) lost() {
	c.state, c.wire, c.cells, c.puts = connNone, nil, nil, nil
	c.batch, c.rest, c.held, c.nhead, c.body = nil, nil, nil, 0, false
}

func appendFrame(p []byte, h *rpi.Header, payload []byte) []byte {
	var b [rpi.HeaderSize]byte
	h.Encode(b[:])
	p = append(p, b[:]...)
	return append(p, payload...)
}

// offer takes a frame as far as the window allows.
func (c *conn) offer(h *rpi.Header, payload []byte, ref rpi.Ref) rpi.SendResult {
	c.flushBatch()
	if len(c.batch) > 0 || c.room() == 0 {
		c.refused = true
		return rpi.Full
	}
	var b [rpi.HeaderSize]byte
	h.Encode(b[:])
	n := c.write(b[:])
	if n < len(b) {
		c.rest = append(c.rest, b[n:]...)
	} else {
		payload = payload[c.write(payload):]
	}
	if len(c.rest)+len(payload) == 0 {
		return rpi.Taken
	}
	c.w.seen.partial++
	if len(payload) == 0 || ref == 0 || c.w.rng.IntN(2) == 0 {
		c.rest = append(c.rest, payload...)
		return rpi.Taken
	}
	c.held, c.ref = payload, ref
	return rpi.Held
}

func (c *conn) room() int { return c.w.shape.window - len(c.wire) }

// write puts into the wire what fits, sometimes less.
func (c *conn) write(p []byte) int {
	n := min(len(p), c.room())
	if n > 1 && c.w.rng.IntN(4) == 0 {
		n = 1 + c.w.rng.IntN(n-1)
	}
	if n > 0 {
		c.w.net.mods[c.from].wake(c) // the receiver may have looked away
	}
	c.wire = append(c.wire, p[:n]...)
	c.wr += uint64(n)
	return n
}

func (c *conn) flushBatch() { c.batch = c.batch[c.write(c.batch):] }

// flush sends on what was accepted and reports whether it has all left.
func (c *conn) flush(m *module) bool {
	if c.state != connOpen || !c.w.ranks[c.to].alive {
		return len(c.batch)+len(c.rest)+len(c.held) == 0
	}
	if len(c.rest) == 0 && len(c.held) == 0 {
		c.flushBatch()
	}
	if len(c.rest) > 0 {
		c.rest = c.rest[c.write(c.rest):]
	}
	if len(c.rest) == 0 && len(c.held) > 0 {
		if c.held = c.held[c.write(c.held):]; len(c.held) == 0 {
			ref := c.ref
			c.held, c.ref = nil, 0
			m.sink.Sent(c.to, ref)
		}
	}
	return len(c.batch)+len(c.rest)+len(c.held) == 0
}

// knock begins a handshake, at the address that is known. The rank that is there now refuses, if
// it is not the peer.
func (c *conn) knock(m *module) {
	if !m.located[c.to] {
		if !slices.Contains(m.asked, c.to) {
			m.asked = append(m.asked, c.to)
		}
		return
	}
	if m.known[c.to] != c.w.places[c.to] {
		m.down(c.to)
		return
	}
	c.state = connSyn
}

// push is the sender's progress.
func (c *conn) push(m *module) bool {
	if c.w.cut(c.from, c.to) {
		return false
	}
	if !c.w.ranks[c.to].alive {
		m.down(c.to)
		return false
	}
	before := c.wr
	if c.state == connAccepted && c.w.rng.IntN(2) == 0 {
		c.state = connOpen
	}
	c.flush(m)
	if len(c.puts) > 0 && c.w.rng.IntN(c.w.shape.landing) == 0 {
		c.landFirst()
	}
	if c.refused && c.state == connOpen && c.room() > 0 && len(c.batch)+len(c.rest)+len(c.held) == 0 {
		c.refused = false
		m.sink.Writable(c.to)
		return true
	}
	return c.wr != before
}

func (c *conn) landFirst() {
	p := c.puts[0]
	c.puts = c.puts[1:]
	c.w.net.land(c.to, p.key, p.off, p.data)
}

// pull is the receiver's progress: some of what is there.
func (c *conn) pull(m *module) bool {
	rng := c.w.rng
	if c.w.cut(c.from, c.to) {
		return false
	}
	if c.state == connSyn && rng.IntN(2) == 0 {
		c.state = connAccepted
		return true
	}
	if c.sweep(); len(c.cells) > 0 {
		if m.quiesced && c.w.breaks(slotsStay) || !m.quiesced && rng.IntN(2) == 0 {
			return false
		}
		return c.read(m)
	}
	n := len(c.wire)
	if n == 0 {
		return false
	}
	if rng.IntN(3) == 0 {
		n = 1 + rng.IntN(n)
	}
	for len(c.puts) > 0 && c.puts[0].before < c.rd+uint64(n) {
		c.landFirst()
	}
	c.w.touched(m.rank, "a frame is received")
	p := c.wire[:n]
	for enough := false; len(p) > 0 && !enough; {
		p, enough = c.parse(m, p)
	}
	n -= len(p)
	c.rd += uint64(n)
	if c.wire = c.wire[n:]; len(c.wire) == 0 {
		c.wire = nil
	}
	if c.nhead > 0 || c.body {
		c.w.seen.cut++
	}
	return true
}

// parse takes some bytes of the stream and returns the others, and whether the engine
// has enough for now.
func (c *conn) parse(m *module, p []byte) (rest []byte, enough bool) {
	if !c.body {
		if rest, enough, ok := c.parseWhole(m, p); ok {
			return rest, enough
		}
		n := copy(c.head[c.nhead:], p)
		c.nhead += n
		p = p[n:]
		if c.nhead < len(c.head) {
			return p, false
		}
		c.decode(m, c.head[:])
		dst, err := m.sink.Begin(c.from, &c.h)
		m.accepted(c.from, err)
		c.nhead, c.body, c.dst, c.need = 0, true, dst, c.h.PayloadLen()
	}
	n := min(len(p), c.need)
	k := copy(c.dst, p[:n])
	c.dst = c.dst[k:]
	c.need -= n
	if c.need == 0 {
		c.body, c.dst = false, nil
		m.sink.End(c.from)
	}
	return p[n:], false
}

// parseWhole takes a frame at one go, if all of it is there.
func (c *conn) parseWhole(m *module, p []byte) (rest []byte, enough, ok bool) {
	if !c.w.shape.whole || c.nhead > 0 || len(p) < rpi.HeaderSize {
		return p, false, false
	}
	c.decode(m, p[:rpi.HeaderSize])
	end := rpi.HeaderSize + c.h.PayloadLen()
	if len(p) < end {
		return p, false, false
	}
	enough = m.deliver(c.from, &c.h, p[rpi.HeaderSize:end])
	return p[end:], enough, true
}

func (c *conn) decode(m *module, head []byte) {
	if !c.h.Decode(head) {
		c.w.violate("rank %d receives garbage of rank %d", m.rank, c.from)
	}
	if c.h.Kind == rpi.Line {
		c.line(&c.h)
	}
}
