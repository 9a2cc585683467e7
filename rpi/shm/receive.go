package shm

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/release"
	"github.com/gorun-mpi/gorun/internal/system/memcopy"
	"github.com/gorun-mpi/gorun/rpi"
)

// burst bounds the cells read from one peer in one Poll, so that a peer that
// sends without end does not starve the others.
const burst = 64

// receiver is the ring from a peer to this rank. It lies in the peer's segment. Nothing read from
// it is trusted.
type receiver struct {
	cells []cell
	shift uint8
	mask  uint32
	head  uint32  // cells used up
	part  int     // messages of the next cell that were delivered
	last  label   // envelope of the last cell that was open
	half  uint64  // word of the next cell, if only half of its payload was there; else 0
	spot  int     // its place in Module.spots
	told  uint32  // head, as the peer was last told by taken
	taken *uint32 // in this rank's control part
	owes  bool    // a chunk was used up and the peer was not told
	owing bool    // in Module.owing

	apart apart

	frame bool   // a frame has begun and not ended
	dst   []byte // where its next payload bytes go
	left  int    // payload bytes to come; those beyond dst are dropped
	long  bool   // its payload has more than mostOwned bytes
}

// spot is where the next message from a peer will appear. An idle Poll looks at nothing else.
type spot struct {
	word *uint64 // the word of the next cell
	seq  uint16  // the mark that it will have
	peer int32
	open *uint64 // the word of the cell before, if messages may be added there; else nil
	last uint64  // what that word was
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

// drained reports whether all messages of the next cell, whose word is w, are delivered and more
// may come there.
func (in *receiver) drained(w uint64) bool {
	return in.part != 0 && formOf(w) == formOpen && countOf(w) == in.part
}

func cellsAt(mem []byte, at, n int) []cell {
	return unsafe.Slice((*cell)(unsafe.Pointer(&mem[at : at+n*cellSize][0])), n)
}

// Poll delivers arrived frames and continues frames under way.
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

// attend does the rare work of Poll.
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

// answer looks at the doors: a peer has opened its ring, or leaves.
func (m *Module) answer() {
	m.seen = atomic.LoadUint32(m.arrivals)
	for i := range m.peers {
		p := &m.peers[i]
		if !p.reach || p.down {
			continue
		}
		w := atomic.LoadUint64(m.ctl.door(i))
		if w&doorOpen != 0 && p.in.cells == nil && m.join(i) {
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
		switch formOf(w) {
		case formInline, formOpen, formPair, formLone:
			err = m.messages(peer, p, c, w)
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

// shut makes s the spot of a ring in which nothing comes any more.
func (s *spot) shut() { *s = spot{word: &nowhere, seq: 1, peer: s.peer} }

// behind reports whether the peer should be told how much this rank has used up.
func (in *receiver) behind() bool { return in.owes || in.head-in.told >= uint32(len(in.cells))/4 }

// pass steps to the next cell if it is there: then nothing is added any more to c, whose messages
// were delivered up to word w.
func (in *receiver) pass(c *cell, w uint64) bool {
	if !in.valid(in.head + 1) {
		return false
	}
	if atomic.LoadUint64(&c.word) == w {
		in.head, in.part = in.head+1, 0
	}
	return true
}

// look sets s to where the next message will appear.
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

// lookNext is look if nothing was taken of the next cell and the one before is not open.
func (in *receiver) lookNext(s *spot) {
	s.word, s.seq = in.wordOf(in.head), seqOf(in.head>>in.shift)
}

// lookBehind is look for a cell of which some messages are delivered. If all are, a message may
// appear there or in the next cell.
func (in *receiver) lookBehind(s *spot) uint32 {
	word := in.wordOf(in.head)
	w := atomic.LoadUint64(word)
	if !in.drained(w) {
		return 0
	}
	s.open, s.last = word, w
	return 1
}

// nowhere is what the spot of a peer that is down looks at.
var nowhere uint64

// tell tells the peer how many cells this rank has used up, and wakes it if it sleeps until it
// knows. A peer that is just falling asleep is left to assure: a barrier here would wait until the
// payload is written.
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

// assure tells the peers that TakeShort has left untold. It also wakes those that were told of
// room and fell asleep before they could see it.
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

// wide delivers a frame, or a piece of one. It copies the cell first: the checked bytes are the
// used ones.
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
		if formOf(word) == formWhole {
			in.long = c.len > mostOwned
		}
		piece = m.payload(p, at, n)
	}
	switch form := formOf(word); {
	case in.part != 0:
		return fmt.Errorf("%w: a cell that changed after it was read in part", ErrCorrupt)
	case form == formWhole && !in.frame:
		c.header(&m.hdr)
		all := m.hdr.PayloadLen()
		if !m.hdr.Valid() || n > all || n == 0 && all > 0 {
			return fmt.Errorf("%w: a header of kind %d with length %d and %d bytes", ErrCorrupt, m.hdr.Kind, m.hdr.Len, n)
		}
		if n == all { // as for most frames
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
		k = memcopy.Bytes(in.dst, piece)
		in.apart.took(begin, m.now())
	} else {
		k = memcopy.Bytes(in.dst, piece)
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

// fail gives a peer up. Poll tells the engine.
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

// Arm allows this rank to sleep unless there is something to do. What comes from now on ends Wait.
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
