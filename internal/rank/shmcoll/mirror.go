package shmcoll

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// lineTo names a member to which this rank's lines are sent.
type lineTo struct {
	t *Team
	i int
}

// mirror notes that a member and this rank do not reach each other's boards: lines are sent.
func (t *Team) mirror(i int) {
	s := &t.seats[i]
	if !s.mirror {
		s.board, s.base, s.mirror = newMirror(t.piece), 0, true
		t.readAgain()
	}
	s.told, s.bye = max(s.known, t.floor, 1)-1, false
	t.unreached++
	lines := &t.set.lines[s.rank]
	if to := (lineTo{t, i}); !slices.Contains(*lines, to) {
		*lines = append(*lines, to)
	}
	t.set.host.Enlist(s.rank)
}

// SendLine offers the next line that the rank was not sent yet, and reports whether there was one.
func (s *Set) SendLine(rank int) bool {
	for _, to := range s.lines[rank] {
		t := to.t
		seat := &t.seats[to.i]
		h := &s.out
		*h = rpi.Header{Kind: rpi.Line, Ctx: t.ctx, Req: t.id()}
		switch {
		case seat.told < t.turn:
			n := seat.told + 1
			if n+boardDepth <= t.turn { // the member has posted later lines since
				n = t.turn - boardDepth + 1
			}
			l := t.own.at(n)
			size := int(l.size &^ lineUnreached)
			if l.size&lineUnreached != 0 {
				h.Flags = rpi.FlagMirrored
			}
			h.Off, h.Tag, h.Len = n, l.tag, uint64(size)
			if s.host.Offer(rank, h, t.own.payload(l, n, size)) {
				seat.told = n
			}
		case t.closed && !seat.bye:
			h.Flags, h.Off = rpi.FlagGone, t.turn+1
			seat.bye = s.host.Offer(rank, h, nil)
		default:
			continue
		}
		return true
	}
	return false
}

// HasLines reports whether lines are sent to the rank.
func (s *Set) HasLines(rank int) bool { return len(s.lines[rank]) != 0 }

// LinesLeft reports whether no module has taken yet some line that goes to a member without access
// to this rank's board.
func (s *Set) LinesLeft() bool {
	for rank, lines := range s.lines {
		for _, to := range lines {
			if to.t.seats[to.i].told < to.t.turn && s.host.Failed(rank) == nil {
				return true
			}
		}
	}
	return false
}

// Begin returns where the payload of an arriving line goes, and the seat for End. A line names its
// writer's board and where on it the team begins (Req). So a line of an earlier team of the
// context, sent or answered late because of a restart, is no line of this team.
func (s *Set) Begin(rank int, h *rpi.Header) ([]byte, *Seat, error) {
	t := s.teams[h.Ctx]
	if h.Flags == rpi.FlagGone|rpi.FlagMirrored { // an answer to this rank's own farewell
		if i := t.placeOf(rank); i >= 0 && h.Req == t.id() {
			t.seats[i].left = true
		}
		return nil, nil, nil
	}
	i := t.placeOf(rank)
	known := i >= 0 && t.seats[i].id() == h.Req
	if !known && h.Flags == rpi.FlagGone { // its sender waits to hear the same
		s.host.Answer(rank, rpi.Header{Kind: rpi.Line, Flags: rpi.FlagGone | rpi.FlagMirrored, Ctx: h.Ctx, Req: h.Req})
	}
	if !known && !t.learns(i, h) || !t.joined && h.Len > uint64(t.piece) { // a longer one is of an earlier team
		return nil, nil, nil
	}
	if h.Off == 0 || h.Off > t.turn+boardDepth && t.joined || h.Len > uint64(t.piece) {
		return nil, nil, fmt.Errorf("%w: line %d of %d bytes", ErrCorrupt, h.Off, h.Len)
	}
	seat := &t.seats[i]
	if !seat.mirror { // it does not reach this rank's board
		t.direct = slices.DeleteFunc(t.direct, func(r int) bool { return r == rank })
		t.mirror(i)
	}
	if h.Flags&rpi.FlagGone != 0 || seat.at(h.Off).number() >= h.Off || h.Len == 0 {
		return nil, seat, nil
	}
	return seat.payload(seat.at(h.Off), h.Off, int(h.Len)), seat, nil
}

// placeOf returns the place of a rank in the team, -1 if it has none, or there is
// no team.
func (t *Team) placeOf(rank int) int {
	if t == nil {
		return -1
	}
	return slices.Index(t.members, rank)
}

// learns reports whether a line may be of this team although it names another place of the member
// than this rank knows. Until the team is joined the members' places are not known. Then the last
// line to come is of this team, a farewell too, if any is.
func (t *Team) learns(i int, h *rpi.Header) bool {
	if i < 0 || t.joined {
		return false
	}
	if !t.seats[i].mirror { // it has lost its board in a restart
		t.mirror(i)
	}
	t.seat(i, int(h.Req%boardDepth), h.Req/boardDepth*boardDepth)
	return true
}

// seat sets where a member's lines are. If that has changed, the content of its mirror is another
// team's.
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

// End puts an arrived line on the mirror, unless it is there already.
func (s *Seat) End(h *rpi.Header) {
	if !s.mirror {
		return
	}
	if h.Flags&rpi.FlagGone != 0 {
		s.left = true
		return
	}
	if l := s.at(h.Off); l.number() < h.Off {
		l.tag, l.size = h.Tag, uint32(h.Len)
		if h.Flags&rpi.FlagMirrored != 0 {
			l.size |= lineUnreached
		}
		l.post(h.Off)
		s.known = max(s.known, h.Off)
	}
}

// Save keeps a copy of this rank's boards, as the memory of modules is no part of an image. It
// first forgets teams that have ended. If they went on in an image, their lines would be sent to
// members that know another team by then.
func (s *Set) Save() {
	s.forgetGone()
	for _, t := range s.teams {
		if t.module == nil {
			continue
		}
		if t.saved.lines == nil {
			t.saved = newMirror(t.piece)
		}
		t.own.copyTo(&t.saved, t.unread())
	}
}

// unread returns this rank's lines with long payloads that a member may still read.
func (t *Team) unread() []uint64 {
	var longs []uint64
	for _, n := range t.longs {
		if n != 0 && n >= t.floor {
			longs = append(longs, n)
		}
	}
	return longs
}

// Move gives the teams the boards of another module; nil: there are none.
func (s *Set) Move(module shared.Boards) {
	for i, own := range s.boards {
		if module != nil && own.bye != 0 && module.Board(i) != nil { // others may not have seen it
			b := boardIn(module.Board(i), 0)
			b.lines[boardDepth].post(own.bye)
		}
	}
	for rank := range s.lines {
		s.lines[rank] = s.lines[rank][:0]
	}
	for i := range s.boards { // not s.teams: the order of what is sent is the same each time
		t := s.boards[i].team
		if t == nil {
			continue
		}
		t.move(module)
		t.settle()
		if t.module != nil {
			t.module.Ring(t.direct) // they may have looked before the lines were there
		}
	}
}

// move puts this rank's lines on its board of another module.
func (t *Team) move(module shared.Boards) {
	was := t.own
	if t.module != nil {
		was = t.saved
	}
	t.module, t.own, t.saved = nil, was, board{}
	if was.lines == nil {
		t.own = newMirror(t.piece)
	}
	var mem []byte
	if module != nil {
		mem = module.Board(t.slot)
	}
	if len(mem) < max(t.seats[t.me].size, t.size) {
		t.own.long(0) // allocates it now: the seat gets a copy of own
		return
	}
	to := boardIn(mem, t.piece)
	t.own.copyTo(&to, t.unread())
	t.module, t.saved, t.own = module, t.own, to
}
