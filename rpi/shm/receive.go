package shm

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/move"
	"github.com/gorun-mpi/gorun/internal/release"
	"github.com/gorun-mpi/gorun/rpi"
)

// burst bounds the cells read from one peer in one Poll, so that a peer that
// sends without end does not starve the others.
const burst = 64

// receiver is the ring from a peer to this rank. It lies in the peer's segment;
// nothing read from it is trusted.
type receiver struct {
	cells []cell
	shift uint8
	mask  uint32
	head  uint32  // cells used up
	part  int     // of the next one, messages delivered
	last  label   // see address
	half  uint64  // its word, if only half of its payload was there; else 0
	spot  int     // its place in Module.spots
	told  uint32  // the same, as the peer was told by way of taken
	taken *uint32 // in this rank's control part
	owes  bool    // a chunk was used up and the peer not told
	owing bool    // in Module.owing

	apart apart

	frame bool   // a frame was begun and not ended
	dst   []byte // where its next payload bytes go
	left  int    // payload bytes to come; those beyond dst are dropped
	long  bool   // its payload has more than mostOwned bytes
}

// spot is where the next message from a peer will appear: all that an idle Poll
// looks at.
type spot struct {
	word *uint64 // of the next cell
	seq  uint16  // that it will have
	peer int32
	open *uint64 // word of the cell before, if messages may be added to it; else nil
	last uint64  // what it was
}

// news reports whether there is a next message.
func (s *spot) news() bool {
	return uint16(atomic.LoadUint64(s.word)) == s.seq || s.open != nil && atomic.LoadUint64(s.open) != s.last
}

// ready reports whether the next cell is there.
func (in *receiver) ready() bool {
	if in.half != 0 {
		return atomic.LoadUint64(in.wordOf(in.head)) != in.half
	}
	return in.cells != nil && in.valid(in.head) && (!in.drained(atomic.LoadUint64(in.wordOf(in.head))) || in.valid(in.head+1))
}

func (in *receiver) wordOf(at uint32) *uint64 { return &in.cells[at&in.mask].word }

// valid reports whether the cell at that place of the ring is filled.
func (in *receiver) valid(at uint32) bool {
	return uint16(atomic.LoadUint64(in.wordOf(at))) == seqOf(at>>in.shift)
}

// drained reports whether all messages of the next cell are delivered, and more may
// come there: its word is w.
func (in *receiver) drained(w uint64) bool {
	return in.part != 0 && w>>21&7 == formOpen && w>>16&31 == uint64(in.part)
}

func cellsAt(mem []byte, at, n int) []cell {
	return unsafe.Slice((*cell)(unsafe.Pointer(&mem[at : at+n*cellSize][0])), n)
}

// Poll delivers what has arrived and sends on what could not be sent before.
func (m *Module) Poll() (moved bool) {
	if atomic.LoadUint32(m.arrivals) != m.seen {
		m.answer()
		moved = true
	}
	for i := range m.spots {
		if s := &m.spots[i]; s.news() {
			m.receive(s)
			moved = true
		}
	}
	if len(m.busy)+len(m.starved)+len(m.broken)+len(m.leaving) > 0 && m.attend() {
		moved = true
	}
	if !moved {
		m.assure()
	}
	if m.late.Load() && m.round() {
		moved = true
	}
	return moved
}

// attend looks after what Poll need not do as a rule.
func (m *Module) attend() (moved bool) {
	if len(m.busy) > 0 {
		moved = m.goOn()
	}
	if len(m.starved) > 0 {
		moved = m.feed() || moved
	}
	for len(m.broken) > 0 {
		peer := m.broken[0]
		m.broken = m.broken[1:]
		m.env.Sink.Down(peer, m.naming(peer, m.peers[peer].why))
		moved = true
	}
	if len(m.leaving) > 0 {
		moved = m.partings() || moved
	}
	return moved
}

// answer looks at the doors.
func (m *Module) answer() {
	m.seen = atomic.LoadUint32(m.arrivals)
	for i := range m.peers {
		p := &m.peers[i]
		if !p.mapped || p.down {
			continue
		}
		w := atomic.LoadUint64(m.ctl.door(i))
		if w&doorOpen != 0 && p.in.cells == nil {
			m.attach(i, w)
		}
		if w&doorClosed != 0 {
			m.ending(i, ErrClosed)
		}
	}
}

// attach begins to read the ring of a peer.
func (m *Module) attach(peer int, w uint64) {
	p := &m.peers[peer]
	at, shift := int(uint32(w))*line, uint8(w>>32)
	if shift < minShift || shift > maxShift || at < m.layout.rings || at+cellSize<<shift > m.layout.pool {
		m.fail(peer, fmt.Errorf("%w: a ring at %d of 1<<%d cells", ErrCorrupt, at, shift))
		return
	}
	p.in.cells = cellsAt(p.data, at, 1<<shift)
	p.in.shift, p.in.mask = shift, 1<<shift-1
	p.in.spot = len(m.spots)
	m.spots = append(m.spots, spot{word: p.in.wordOf(0), seq: seqOf(0), peer: int32(peer)})
}

// receive delivers the cells of a ring.
func (m *Module) receive(s *spot) {
	peer := int(s.peer)
	p := &m.peers[peer]
	in := &p.in
	for range burst {
		c := &in.cells[in.head&in.mask]
		w := atomic.LoadUint64(&c.word)
		if uint16(w) != seqOf(in.head>>in.shift) {
			break
		}
		if used := uint32(w >> 32); used != p.out.used {
			if m.heard(peer, used); p.down { // it cannot be
				break
			}
		}
		in.half = 0
		var err error
		switch w >> 21 & 7 {
		case formInline, formOpen:
			err = m.inline(peer, in, c, w)
		case formPair:
			err = m.pair(peer, in, c, w)
		case formLone:
			err = m.lone(peer, p, c, w)
		case formHalf:
			err = in.halved(w)
		default:
			err = m.wide(peer, p, c, w)
		}
		if err != nil {
			if !rpi.IsEnough(err) {
				m.fail(peer, err)
			}
			break
		}
		if in.part != 0 && in.drained(w) && !in.pass(c, w) {
			break
		}
	}
	if p.down {
		s.shut()
		return
	}
	in.look(s)
	if in.behind() {
		m.tell(peer, p)
	}
}

// shut makes it a ring in which nothing comes any more.
func (s *spot) shut() { *s = spot{word: &nowhere, seq: 1, peer: s.peer} }

// behind reports whether the peer should be told how far this rank is.
func (in *receiver) behind() bool { return in.owes || in.head-in.told >= uint32(len(in.cells))/4 }

// pass goes on to the next cell if there is one: then nothing is added to c any more,
// whose messages were delivered up to word w.
func (in *receiver) pass(c *cell, w uint64) bool {
	if !in.valid(in.head + 1) {
		return false
	}
	if atomic.LoadUint64(&c.word) == w {
		in.head, in.part = in.head+1, 0
	}
	return true
}

// look sets where the next message will appear.
func (in *receiver) look(s *spot) {
	at := in.head
	s.open = nil
	if in.half != 0 {
		s.open, s.last = in.wordOf(at), in.half
		at++
	} else if in.part != 0 {
		at += in.lookBehind(s)
	}
	s.word, s.seq = in.wordOf(at), seqOf(at>>in.shift)
}

// lookBehind is look for a cell of which some messages are delivered: if all are, a
// message may appear there or in the next one.
func (in *receiver) lookBehind(s *spot) uint32 {
	word := in.wordOf(in.head)
	w := atomic.LoadUint64(word)
	if !in.drained(w) {
		return 0
	}
	s.open, s.last = word, w
	return 1
}

// nowhere is what a spot looks at whose peer is down.
var nowhere uint64

// tell lets the peer know how far this rank is, and wakes it if it sleeps until it
// knows. If it is just about to, that is left to assure: a barrier here would wait
// until the payload is written.
func (m *Module) tell(peer int, p *peer) {
	in := &p.in
	in.owes, in.told = false, in.head
	release.Store32(in.taken, in.head)
	if atomic.LoadUint32(p.bell)&bellRoom != 0 {
		ring(p.bell)
	}
	if !p.told {
		p.told = true
		m.told = append(m.told, peer)
	}
}

// assure tells those whom TakeShort has left to be told, and wakes those who were told of
// room and slept before they could see it.
func (m *Module) assure() {
	m.settleUp()
	if len(m.told) == 0 {
		return
	}
	fence()
	for _, peer := range m.told {
		p := &m.peers[peer]
		p.told = false
		if p.mapped && atomic.LoadUint32(p.bell)&bellRoom != 0 {
			ring(p.bell)
		}
	}
	m.told = m.told[:0]
}

// inline delivers the messages in a cell, one as a rule.
func (m *Module) inline(peer int, in *receiver, c *cell, w uint64) error {
	n, count := lengthOf(w), int(w>>16&31)
	if n*count > hasRoom(w) || in.frame || count <= in.part && !in.drained(w) {
		return fmt.Errorf("%w: %d messages of %d bytes in a cell", ErrCorrupt, count, n)
	}
	h := &m.hdr
	h.Kind, h.Flags, h.Len, h.Req, h.Off = rpi.Eager, 0, uint64(n), 0, 0
	if w>>16&0xff == formInline<<5|1 && w&alsoBit == 0 && in.part == 0 {
		h.Tag, h.Type, h.Ctx = c.tag, c.typ, c.ctx
		err := m.env.Sink.Deliver(peer, h, c.body[:n])
		if err != nil && !rpi.IsEnough(err) {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		in.head++
		return err
	}
	in.address(c, w)
	h.Tag, h.Type, h.Ctx = in.last.tag, in.last.typ, in.last.ctx
	return m.several(peer, in, c, w)
}

// address sets last, the envelope of messages in a cell that is or was open: that which is
// in it, or the one of the last such cell.
func (in *receiver) address(c *cell, w uint64) {
	if w&alsoBit == 0 {
		in.last = label{c.ctx, c.tag, c.typ}
	}
}

// several delivers what was not yet delivered of a cell that has, or may come to
// have, several messages. The header is in m.hdr.
func (m *Module) several(peer int, in *receiver, c *cell, w uint64) error {
	n, count := lengthOf(w), int(w>>16&31)
	body := c.bytes()[cellSize-hasRoom(w):]
	if m.alike != nil && count > in.part+1 {
		taken, enough := m.alike.DeliverAlike(peer, &m.hdr, body[in.part*n:count*n], count-in.part)
		in.part += taken
		over := in.part == count && w>>21&7 == formInline
		if over {
			in.head, in.part = in.head+1, 0
		}
		if enough {
			return rpi.Enough
		}
		if over {
			return nil
		}
	}
	for in.part < count {
		err := m.env.Sink.Deliver(peer, &m.hdr, body[in.part*n:][:n])
		if err != nil && !rpi.IsEnough(err) {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if in.part++; in.part == count && w>>21&7 == formInline {
			in.head, in.part = in.head+1, 0
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pair delivers a message that is in two cells.
func (m *Module) pair(peer int, in *receiver, c *cell, w uint64) error {
	n := int(w >> 24 & 0xff)
	if n <= inlineMax || n > pairMax || in.frame || in.part != 0 || w>>16&31 != uint64(rpi.Eager) {
		return fmt.Errorf("%w: %d bytes in two cells", ErrCorrupt, n)
	}
	h := &m.hdr
	h.Kind, h.Flags, h.Tag, h.Type, h.Ctx = rpi.Eager, 0, c.tag, c.typ, c.ctx
	h.Len, h.Req, h.Off = uint64(n), 0, 0
	copy(m.both[:], c.body[:])
	copy(m.both[inlineMax:], in.cells[(in.head+1)&in.mask].rest().body[:])
	err := m.env.Sink.Deliver(peer, h, m.both[:n])
	if err != nil && !rpi.IsEnough(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	in.head += 2
	return err
}

// wide delivers a frame, or a piece of one. The cell is copied first: what is
// checked is what is used.
func (m *Module) wide(peer int, p *peer, shared *cell, word uint64) error {
	in := &p.in
	c := *shared.wide()
	c.word = word
	var piece []byte
	at, n := int(c.chunk), int(c.size)
	if n > 0 {
		if at < m.layout.pool || at > m.layout.size || n > m.layout.size-at {
			return fmt.Errorf("%w: %d bytes at %d", ErrCorrupt, n, at)
		}
		if word>>21&7 == formWhole {
			in.long = c.len > mostOwned
		}
		piece = m.payload(p, at, n)
	}
	switch form := word >> 21 & 7; {
	case in.part != 0:
		return fmt.Errorf("%w: a cell that was another", ErrCorrupt)
	case form == formWhole && !in.frame:
		c.header(&m.hdr)
		all := m.hdr.PayloadLen()
		if !m.hdr.Valid() || n > all || n == 0 && all > 0 {
			return fmt.Errorf("%w: a header of kind %d with length %d and %d bytes", ErrCorrupt, m.hdr.Kind, m.hdr.Len, n)
		}
		if n == all { // which is most often
			err := m.env.Sink.Deliver(peer, &m.hdr, piece)
			if err != nil && !rpi.IsEnough(err) {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
			in.head++
			in.owes = in.owes || n > 0
			return err
		}
		dst, err := m.env.Sink.Begin(peer, &m.hdr)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		in.frame, in.dst, in.left = true, dst[:min(len(dst), all)], all
	case form == formMore && in.frame && n > 0 && n <= in.left:
	default:
		return fmt.Errorf("%w: a cell of form %d with %d bytes", ErrCorrupt, form, n)
	}
	var k int
	if in.apart.timed(n) {
		begin := m.now()
		k = move.Bytes(in.dst, piece)
		in.apart.took(begin, m.now())
	} else {
		k = move.Bytes(in.dst, piece)
	}
	in.dst, in.left = in.dst[k:], in.left-n
	in.head++
	if in.left > 0 {
		m.tell(peer, p) // the chunk may be needed for the rest
		return nil
	}
	in.frame, in.dst, in.owes = false, nil, true
	m.env.Sink.End(peer)
	return nil
}

// fail gives a peer up; Poll tells the engine.
func (m *Module) fail(peer int, err error) {
	p := &m.peers[peer]
	if p.down {
		return
	}
	p.down, p.why = true, err
	p.in.frame, p.in.dst = false, nil
	m.giveUp(&p.out)
	m.broken = append(m.broken, peer)
}

// Arm allows to wait unless something is there to be done. What comes from now
// on ends Wait.
func (m *Module) Arm() bool {
	if len(m.busy) > 0 && m.goOn() {
		return false // upcalls may have brought new work
	}
	m.clean()
	m.assure()
	m.bell.arm(len(m.busy)+len(m.starved) > 0)
	if m.pending() {
		m.bell.disarm()
		return false
	}
	return true
}

// pending reports whether Poll has something to do.
func (m *Module) pending() bool {
	if atomic.LoadUint32(m.arrivals) != m.seen || len(m.broken)+len(m.leaving) > 0 {
		return true
	}
	for i := range m.spots {
		if m.spots[i].news() {
			return true
		}
	}
	return len(m.busy)+len(m.starved) > 0 && m.eased()
}

// eased reports whether a peer has used up cells since this rank last looked.
func (m *Module) eased() bool {
	for i := range m.peers {
		p := &m.peers[i]
		if o := &p.out; (o.full || o.leased > 0) && !p.down && int32(atomic.LoadUint32(o.taken)-o.used) > 0 {
			return true
		}
	}
	return false
}
