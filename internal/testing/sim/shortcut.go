package sim

import (
	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// shortcut is the ability to send and take short messages without a header of the
// engine's: they lie in cells.
type shortcut struct{ m *module }

// mostShort is how long a message may be that goes this way.
const mostShort = 400

func (s shortcut) SendShort(peer int, ctx uint64, tag int32, typ uint32, payload []byte, more bool) bool {
	m, w := s.m, s.m.f.w
	c := m.conn(peer)
	if !w.breaks(openNotShut) {
		c.shut()
	}
	if m.gone || !c.roomy(len(payload)) || w.rng.IntN(8) == 0 {
		return false
	}
	h := rpi.Header{Kind: rpi.Eager, Ctx: ctx, Tag: tag, Type: typ, Len: uint64(len(payload))}
	m.wake(c)
	c.publish(&h, payload, more)
	m.opened = append(m.opened, c)
	w.seen.short++
	if w.breaks(shortSentUncounted) && w.rng.IntN(4) == 0 {
		w.ranks[m.rank].e.Sent()[peer] -= rpi.HeaderSize + h.Len
	}
	return true
}

// roomy reports whether a message can be left in a cell.
func (c *conn) roomy(n int) bool {
	return c.state == connOpen && c.w.ranks[c.to].alive && n <= mostShort && len(c.cells) < mostCells &&
		len(c.batch)+len(c.rest)+len(c.held)+len(c.wire) == 0 && c.nhead == 0 && !c.body
}

func (s shortcut) Open(peer int) *shared.Open { return &s.m.conn(peer).open }

func (s shortcut) TakeShort(peer int, ctx uint64, tag int32, typ uint32, buf []byte) int {
	m, w := s.m, s.m.f.w
	c := m.f.mods[peer].out[m.rank]
	if c != nil {
		c.sweep()
	}
	if m.gone || c == nil || len(c.cells) == 0 || c.cells[0].part == c.cells[0].count() {
		if m.stirs() {
			return shared.TakeOther
		}
		return shared.TakeNone
	}
	l := c.cells[0]
	if alike := l.h.Ctx == ctx && l.h.Tag == tag && l.h.Type == typ || w.breaks(shortBlind); !alike || len(l.next()) > len(buf) || w.rng.IntN(6) == 0 {
		return shared.TakeOther
	}
	if l.rest != nil {
		n := copy(buf, l.long[:len(l.long)-len(l.rest)])
		if w.breaks(partAsWhole) {
			l.part++
			return n
		}
		if w.rng.IntN(2) == 0 {
			w.seen.parts++
			if w.breaks(partDropped) {
				l.part++
			}
			return shared.TakePart
		}
		l.fill()
	}
	n := copy(buf, l.next())
	if l.part++; w.breaks(shortTakenTwice) && w.rng.IntN(4) == 0 {
		l.part--
	}
	w.seen.taken++
	if w.breaks(shortTakenUncounted) && w.rng.IntN(4) == 0 {
		w.ranks[m.rank].e.Received()[peer] -= rpi.HeaderSize + uint64(n)
	}
	return n
}
