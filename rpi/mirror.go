package rpi

import (
	"fmt"
	"slices"
	"time"
)

// lineTo names a member to whom this rank's lines are sent.
type lineTo struct {
	t *Team
	i int
}

// mirror makes a member one that does not reach this rank's board, nor this rank
// its: lines are sent.
func (t *Team) mirror(i int) {
	s := &t.seats[i]
	if !s.mirror {
		s.board, s.base, s.mirror = newMirror(t.piece), 0, true
		t.readAgain()
	}
	s.told, s.bye = max(s.known, t.floor, 1)-1, false
	t.apart++
	pr := &t.e.peers[s.rank]
	if to := (lineTo{t, i}); !slices.Contains(pr.lines, to) {
		pr.lines = append(pr.lines, to)
	}
	t.e.enlist(pr)
}

// sendLine offers the next line that the peer has not been sent, if there is
// one.
func (e *Engine) sendLine(pr *peer) bool {
	for _, to := range pr.lines {
		t := to.t
		s := &t.seats[to.i]
		h := &e.out
		*h = Header{Kind: Line, Ctx: t.ctx, Req: t.id()}
		switch {
		case s.told < t.turn:
			n := s.told + 1
			if n+boardDepth <= t.turn { // it has posted later ones since
				n = t.turn - boardDepth + 1
			}
			l := t.own.at(n)
			size := int(l.size &^ lineApart)
			if l.size&lineApart != 0 {
				h.Flags = FlagApart
			}
			h.Off, h.Tag, h.Len = n, l.tag, uint64(size)
			if e.offer(pr, h, t.own.payload(l, n, size), 0, false) != Full {
				s.told = n
			}
		case t.closed && !s.bye:
			h.Flags, h.Off = FlagGone, t.turn+1
			s.bye = e.offer(pr, h, nil, 0, false) != Full
		default:
			continue
		}
		return true
	}
	return false
}

// AtPoint is Pending for a rank whose program agrees to be saved here. It waits until
// this rank's lines have left, which is soon, for who is to get them lives: before that
// a member may not know how far this rank is, and a cut that goes through no turn look
// to it as if it did (CutError).
func (e *Engine) AtPoint() []string {
	for e.linesLeft() && e.abort.Load() == nil {
		if !e.Progress() {
			time.Sleep(100 * time.Microsecond)
		}
	}
	return e.Pending()
}

// linesLeft reports whether there are lines that members without sight of this rank's
// board are to get and no module has taken yet.
func (e *Engine) linesLeft() bool {
	e.enter()
	defer e.leave()
	for i := range e.peers {
		for _, to := range e.peers[i].lines {
			if e.peers[i].failed == nil && to.t.seats[to.i].told < to.t.turn {
				return true
			}
		}
	}
	return false
}

// beginLine returns where the payload of an arriving line goes. A line names its
// writer's board and where on it the team begins (Req), so one of an earlier team
// of the context, sent or answered late because of a restart, is no line of this.
func (e *Engine) beginLine(pr *peer, in *arriving) ([]byte, error) {
	h := &in.h
	t := e.teams[h.Ctx]
	if h.Flags == FlagGone|FlagApart { // to this rank's own farewell
		if i := t.placeOf(pr.rank); i >= 0 && h.Req == t.id() {
			t.seats[i].left = true
		}
		return nil, nil
	}
	i := t.placeOf(pr.rank)
	known := i >= 0 && t.seats[i].id() == h.Req
	if !known && h.Flags == FlagGone { // who says so waits to hear the same
		e.respond(pr, reply{kind: Line, flags: FlagGone | FlagApart, ctx: h.Ctx, req: h.Req})
	}
	if !known && !t.learns(i, h) {
		return nil, nil
	}
	if h.Off == 0 || h.Off > t.turn+boardDepth && t.joined || h.Len > uint64(t.piece) {
		return nil, fmt.Errorf("%w: line %d of %d bytes", errCorrupt, h.Off, h.Len)
	}
	s := &t.seats[i]
	if !s.mirror { // it does not reach this rank's board
		t.direct = slices.DeleteFunc(t.direct, func(r int) bool { return r == pr.rank })
		t.mirror(i)
	}
	in.seat = s
	if h.Flags&FlagGone != 0 || s.at(h.Off).number() >= h.Off || h.Len == 0 {
		return nil, nil
	}
	return s.payload(s.at(h.Off), h.Off, int(h.Len)), nil
}

// placeOf returns the place of a rank in the team, -1 if it has none, or there is
// no team.
func (t *Team) placeOf(rank int) int {
	if t == nil {
		return -1
	}
	return slices.Index(t.members, rank)
}

// learns reports whether a line from another place than is known of a member may be
// of this team. While the team is not joined, what others have as places is not
// known: then what comes last is of it, farewells too, if anything is.
func (t *Team) learns(i int, h *Header) bool {
	if i < 0 || t.joined || !t.seats[i].mirror {
		return false
	}
	t.seat(i, int(h.Req%boardDepth), h.Req/boardDepth*boardDepth)
	return true
}

// seat says where a member's lines are. If that is news, what its mirror has is of
// another team.
func (t *Team) seat(i, slot int, from uint64) {
	s := &t.seats[i]
	if s.slot == slot && s.from == from {
		return
	}
	s.slot, s.from, s.known, s.left = slot, from, 0, false
	if s.mirror {
		s.board = newMirror(t.piece)
	}
}

// endLine puts an arrived line on the mirror, unless it is there.
func (e *Engine) endLine(in *arriving) {
	h, s := &in.h, in.seat
	if in.seat = nil; s == nil || !s.mirror {
		return
	}
	if h.Flags&FlagGone != 0 {
		s.left = true
		return
	}
	if l := s.at(h.Off); l.number() < h.Off {
		l.tag, l.size = h.Tag, uint32(h.Len)
		if h.Flags&FlagApart != 0 {
			l.size |= lineApart
		}
		l.post(h.Off)
		s.known = max(s.known, h.Off)
	}
}

// saveBoards keeps what is on this rank's boards: the memory of modules is no
// part of an image. Teams that are seen to have ended must not live on in one: their
// lines would be sent to members that know of another team by then.
func (e *Engine) saveBoards() {
	e.forgetGone()
	for _, t := range e.teams {
		if t.home == nil {
			continue
		}
		if t.saved.lines == nil {
			t.saved = newMirror(t.piece)
		}
		t.own.copyTo(&t.saved, t.unread())
	}
}

// unread returns this rank's lines with long payloads that somebody may still read.
func (t *Team) unread() []uint64 {
	var longs []uint64
	for _, n := range t.longs {
		if n != 0 && n >= t.floor {
			longs = append(longs, n)
		}
	}
	return longs
}

// moveTeams gives the teams the boards of the modules that there are now.
func (e *Engine) moveTeams() {
	home := e.homeOfBoards()
	for i, own := range e.boards {
		if home != nil && own.bye != 0 && home.Board(i) != nil { // others may not have seen it
			b := boardIn(home.Board(i), 0)
			b.lines[boardDepth].post(own.bye)
		}
	}
	for i := range e.peers {
		e.peers[i].lines = e.peers[i].lines[:0]
	}
	for _, t := range e.teams {
		t.move(home)
		t.settle()
		if t.home != nil {
			t.home.Ring(t.direct) // they may have looked before it was there
		}
	}
}

// move puts this rank's lines on its board of another module.
func (t *Team) move(home Boards) {
	was := t.own
	if t.home != nil {
		was = t.saved
	}
	t.home, t.own, t.saved = nil, was, board{}
	if was.lines == nil {
		t.own = newMirror(t.piece)
	}
	var mem []byte
	if home != nil {
		mem = home.Board(t.slot)
	}
	if len(mem) < t.size {
		t.own.long(0) // its seat has a copy of where that is
		return
	}
	to := boardIn(mem, t.piece)
	t.own.copyTo(&to, t.unread())
	t.home, t.saved, t.own = home, t.own, to
}
