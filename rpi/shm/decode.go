package shm

import (
	"fmt"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/rpi"
)

// Cells that hold only messages are read here and nowhere else. decode says whose they are, where
// their payloads lie and how many there are. advance steps over those that were taken. Poll gives
// the messages to the engine, TakeShort to the caller that waits.
//
//	form        label             payloads            messages    cells
//	inline      in the cell       in the cell         1           1
//	open        or the last one   in the cell         1 to 31     1, when no more are added
//	pair        in the cell       in two cells        1           2
//	lone, half  in the cell       in a chunk          1           1
//
// What a peer has written is not trusted: each word is read once, and checked before it is used.

// onlyOne is the form and the number in the word of a cell with one message. Most cells have one.
const onlyOne = formInline<<5 | 1

// plain is decode for a cell with one message and its label. For any other l is nil. It is short
// enough to be inlined.
func (in *receiver) plain(c *cell, w uint64) (l *label, payload []byte) {
	if n := w >> 24 & 0xff; w>>16&0xff == onlyOne && n <= inlineMax && !in.begun() {
		return &c.label, c.body[:n]
	}
	return nil, nil
}

// begun reports whether a part of the next cell, or of its frame, was taken.
func (in *receiver) begun() bool { return in.part != 0 || in.frame }

// decode reads the next cell, whose word is w. The payloads of the messages that were not taken
// yet lie one behind the other, all of the same length. The payload of a pair is for join. A count
// of 0 means that all were taken and more may come there, a negative one that there can be no such
// cell.
func (m *Module) decode(p *peer, c *cell, w uint64) (l *label, payloads []byte, count int) {
	if l, payloads = p.in.plain(c, w); l != nil {
		return l, payloads, 1
	}
	return m.decodeOdd(p, c, w)
}

// decodeOdd is decode for all but plain cells.
func (m *Module) decodeOdd(p *peer, c *cell, w uint64) (l *label, payloads []byte, count int) {
	in := &p.in
	form := formOf(w)
	if form == formInline || form == formOpen {
		return in.several(c, w)
	}
	switch n := w >> 24 & 0xff; {
	case in.begun() || countOf(w) != 1:
	case form == formPair && n > inlineMax && n <= pairMax:
		payloads = c.body[:]
	case form == formLone || form == formHalf:
		payloads = m.lonely(p, c)
	}
	if payloads == nil {
		return nil, nil, -1
	}
	return &c.label, payloads, 1
}

// join puts the two parts of a pair's payload together.
func (in *receiver) join(payload, first []byte) {
	copy(payload, first)
	copy(payload[inlineMax:], in.cells[(in.head+1)&in.mask].rest().body[:])
}

// several is decode for a cell that has several messages, or may come to have them.
func (in *receiver) several(c *cell, w uint64) (l *label, payloads []byte, count int) {
	n, all := lengthOf(w), countOf(w)
	count = all - in.part
	if n*all > hasRoom(w) || in.frame || count < 0 || count == 0 && !in.drained(w) {
		return nil, nil, -1
	}
	if w&alsoBit == 0 {
		in.last = c.label
	}
	return &in.last, c.bytes()[cellSize-hasRoom(w)+in.part*n:][:count*n], count
}

// lonely returns the payload that a cell of form lone or half names, nil if it names none that can
// be.
func (m *Module) lonely(p *peer, c *cell) []byte {
	place := atomic.LoadUint64(&c.lone().place)
	at, n := int(uint32(place)), int(place>>32)
	if n == 0 || n > mostLone || at < m.layout.pool || n > m.layout.size-at {
		return nil
	}
	p.in.long = false
	return m.payload(p, at, n)
}

// advance steps over k messages of the next cell, whose word is w.
func (in *receiver) advance(w uint64, k int) {
	switch formOf(w) {
	case formInline, formOpen:
		if in.part += k; in.part == countOf(w) && formOf(w) == formInline {
			in.head, in.part = in.head+1, 0
		}
	case formPair:
		in.head += 2
	default:
		in.head++
	}
}

// messages delivers the messages of the next cell, as a rule one.
func (m *Module) messages(peer int, p *peer, c *cell, w uint64) error {
	l, payloads, count := m.decode(p, c, w)
	if count < 0 {
		return fmt.Errorf("%w: a cell of form %d with %d messages", ErrCorrupt, formOf(w), countOf(w))
	}
	in, h := &p.in, &m.hdr
	if formOf(w) == formPair {
		first := payloads
		payloads = m.both[:lengthOf(w)]
		in.join(payloads, first)
	}
	h.Kind, h.Flags, h.Tag, h.Type, h.Ctx = rpi.Eager, 0, l.tag, l.typ, l.ctx
	h.Len, h.Req, h.Off = uint64(len(payloads)), 0, 0
	if count != 1 {
		return m.alikes(peer, in, w, payloads, count)
	}
	err := m.env.Sink.Deliver(peer, h, payloads)
	if err != nil && !rpi.IsEnough(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if formOf(w) == formLone {
		in.owes = true
	}
	in.advance(w, 1)
	return err
}

// alikes delivers up to count messages with the header in m.hdr, as many as the engine wants now.
func (m *Module) alikes(peer int, in *receiver, w uint64, payloads []byte, count int) error {
	n := lengthOf(w)
	m.hdr.Len = uint64(n)
	taken, enough := 0, false
	if m.alike != nil && count > 1 {
		taken, enough = m.alike.DeliverAlike(peer, &m.hdr, payloads, count)
	}
	for ; taken < count && !enough; taken++ {
		err := m.env.Sink.Deliver(peer, &m.hdr, payloads[taken*n:][:n])
		if enough = rpi.IsEnough(err); err != nil && !enough {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	in.advance(w, taken)
	if enough {
		return rpi.Enough
	}
	return nil
}
