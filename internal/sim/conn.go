package sim

import (
	"fmt"

	"github.com/gorun-mpi/gorun/rpi"
)

// conn is a one-way connection:
//
//	sender: batch, rest, held -> wire (window) -> receiver: header, payload
//	                          -> slot, read in place, before anything in the wire
//	                          -> puts, direct writes under way
//
// A connection begins when the sender knocks (syn), is half open once the
// receiver has answered (accepted), and open when the sender has seen that.
type conn struct {
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
	slot *slot

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

// put is a direct write under way: it lands before byte `before` of the wire
// is read.
type put struct {
	key, off uint64
	data     []byte
	before   uint64
}

type slot struct {
	h       rpi.Header
	payload []byte
}

func (c *conn) String() string {
	return fmt.Sprintf("%d to %d: state %d, batch %d, rest %d, held %d, wire %d, puts %d, slot %v, frame begun %v",
		c.from, c.to, c.state, len(c.batch), len(c.rest), len(c.held), len(c.wire), len(c.puts), c.slot != nil, c.nhead > 0 || c.body)
}

// idle reports whether nothing is under way to the receiver.
func (c *conn) idle() bool {
	return len(c.batch)+len(c.rest)+len(c.held)+len(c.wire) == 0 && c.slot == nil && c.nhead == 0 && !c.body
}

// atRest is idle with no handshake and no direct write: what it must be at a cut.
func (c *conn) atRest() bool {
	return c.idle() && len(c.puts) == 0 && c.state != connSyn && c.state != connAccepted
}

func (c *conn) sent() bool {
	return len(c.batch)+len(c.rest)+len(c.held)+len(c.puts) == 0 && !c.refused &&
		(c.state == connNone || c.state == connOpen)
}

func (c *conn) received() bool {
	return len(c.wire)+len(c.puts) == 0 && c.slot == nil && c.nhead == 0 && !c.body && c.state != connSyn
}

// lost drops what was under way.
func (c *conn) lost() {
	c.state, c.wire, c.slot, c.puts = connNone, nil, nil, nil
	c.batch, c.rest, c.held, c.nhead, c.body = nil, nil, nil, 0, false
}

func appendFrame(p []byte, h *rpi.Header, payload []byte) []byte {
	var b [rpi.HeaderSize]byte
	h.Encode(b[:])
	p = append(p, b[:]...)
	return append(p, payload...)
}

func (c *conn) publish(h *rpi.Header, payload []byte) {
	c.slot = &slot{*h, append([]byte(nil), payload...)}
	c.w.seen.slots++
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

func (c *conn) room() int { return c.w.plan.window - len(c.wire) }

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

// push is the sender's progress.
func (c *conn) push(m *module) bool {
	if !c.w.ranks[c.to].alive {
		m.down(c.to)
		return false
	}
	before := c.wr
	if c.state == connAccepted && c.w.rng.IntN(2) == 0 {
		c.state = connOpen
	}
	c.flush(m)
	if len(c.puts) > 0 && c.w.rng.IntN(c.w.plan.landing) == 0 {
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
	if c.state == connSyn && rng.IntN(2) == 0 {
		c.state = connAccepted
		return true
	}
	if c.slot != nil {
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
	c.rd += uint64(n)
	for len(p) > 0 {
		p = c.parse(m, p)
	}
	if c.wire = c.wire[n:]; len(c.wire) == 0 {
		c.wire = nil
	}
	if c.nhead > 0 || c.body {
		c.w.seen.cut++
	}
	return true
}

// read takes the frame in the slot.
func (c *conn) read(m *module) bool {
	s := c.slot
	c.slot = nil
	c.w.touched(m.rank, "a slot is read")
	dst, err := m.sink.Begin(c.from, &s.h)
	if err != nil {
		c.w.violate("rank %d refuses a frame of rank %d: %v", m.rank, c.from, err)
	}
	copy(dst, s.payload)
	m.sink.End(c.from)
	return true
}

// parse takes some bytes of the stream and returns the others.
func (c *conn) parse(m *module, p []byte) []byte {
	if !c.body {
		n := copy(c.head[c.nhead:], p)
		c.nhead += n
		p = p[n:]
		if c.nhead < len(c.head) {
			return p
		}
		if !c.h.Decode(c.head[:]) {
			c.w.violate("rank %d receives garbage of rank %d", m.rank, c.from)
		}
		dst, err := m.sink.Begin(c.from, &c.h)
		if err != nil {
			c.w.violate("rank %d refuses a frame of rank %d: %v", m.rank, c.from, err)
		}
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
	return p[n:]
}
