package rpi

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Teams: collectives by way of memory that ranks share (Boards). State instead
// of messages: the members of a team take turns, numbered from 1, in each of
// which every member posts one line on its own board and then reads the lines
// with that number of those members that it needs.
//
//   - Who posts line n has read what it needed of line n-1. So a line may take
//     the place of line n-boardDepth once all members have posted later ones,
//     and a long payload that of line n-boardBulks.
//   - In every turn whose number is a multiple of allEvery everybody waits for
//     all, whatever the turn is for. That leaves room for lines without asking.
//   - Nothing is ever in flight: a reader that has read line n did so before its
//     gate closed, and then the writer's memory says that it posted it. So with
//     the gate closed each member keeps a copy of its own board, but for long
//     payloads that nobody reads any more, writes it back to the board that it
//     has after a restart, and everyone goes on reading. Who combines lines (see
//     Turn.Combine, Turn.Once) needs them all at once and looks for all of them again.
//   - A member whose board this rank does not reach, as after a restart on
//     several machines, has a mirror here, filled by frames of kind Line that the
//     member sends to exactly those that do not reach it. They say what is on
//     a board, and which team it was then for, so they may be sent again, and
//     late, and are not taken twice, nor for another team's.
//   - A line says whether its writer reaches all boards (lineApart). When a turn
//     in which all read all lines has shown that one does not, all members know
//     the same: the team is over (Team.Over), and its owner goes over to
//     messages when it next can. Of an empty turn, and of one that is put together
//     once (Turn.Once), not everybody reads all.
//
// Team is for one goroutine at a time.
type Team struct {
	e       *Engine
	ctx     uint64
	members []int
	me      int
	home    Boards // whose board own is; nil: it is private memory
	own     board
	saved   board              // own, as it was when the gate had closed
	longs   [boardBulks]uint64 // the last lines with long payloads
	slot    int                // its number among this rank's boards
	base    uint64
	size    int // bytes of the boards
	piece   int // bytes of the longest payload
	seats   []seat
	direct  []int // world ranks of the members that read this rank's board
	apart   int   // the number of the others
	dead    int   // the number of those that have failed
	joined  bool
	closed  bool
	spent   bool // a turn has failed
	over    bool
	turn    uint64 // the last one whose line is posted
	floor   uint64 // all members have posted this one
	order   []int  // the members' places, as they are looked at: see near.go
	near    int    // how many of them share this rank's CPU
	late    int    // which of these was the last one waited for: looked at first
	guide   int    // the place of who was the last to tell: asked first
	spins   spins
	now     progress
	parts   [][]byte // scratch
}

// allEvery is how often everybody waits for all.
const allEvery = boardDepth / 2

// nowhere is the base of a member's lines while it is not known: none has it.
const nowhere = 1 << 63

// seat is a member as this rank sees it.
type seat struct {
	board         // its own, or a mirror of it
	from   uint64 // base of its lines' numbers on its own board
	base   uint64 // and here: 0 on a mirror
	rank   int
	slot   int    // the number of its board
	known  uint64 // a turn whose line it has posted
	mirror bool   // and then:
	told   uint64 // the last line sent to it
	bye    bool   // it was told of the end
	left   bool   // it has said so
}

// Place is what the other members must be told of a member's board.
type Place struct {
	Board int32
	Size  int32
	Base  uint64
}

// PlaceSize is the size in bytes of an encoded Place.
const PlaceSize = 16

// Encode writes the place to p, which has at least PlaceSize bytes.
func (a Place) Encode(p []byte) {
	binary.LittleEndian.PutUint32(p, uint32(a.Board))
	binary.LittleEndian.PutUint32(p[4:], uint32(a.Size))
	binary.LittleEndian.PutUint64(p[8:], a.Base)
}

// Decode reads the place from p, which has at least PlaceSize bytes.
func (a *Place) Decode(p []byte) {
	a.Board = int32(binary.LittleEndian.Uint32(p))
	a.Size = int32(binary.LittleEndian.Uint32(p[4:]))
	a.Base = binary.LittleEndian.Uint64(p[8:])
}

// id is what tells a member's team from those that it was in before.
func (s *seat) id() uint64 { return s.from | uint64(s.slot) }

// id is that of this rank's own place.
func (t *Team) id() uint64 { return t.base | uint64(t.slot) }

// ownBoard is one of this rank's boards.
type ownBoard struct {
	team *Team
	base uint64 // for the next team
	bye  uint64 // the last farewell on it
}

// OpenTeam prepares a team of the members (world ranks, this one at place me) for
// a context. ok is false if this rank lacks a free board or does not reach
// every other member's; then there is nothing to close. The others must be told
// at.
func (e *Engine) OpenTeam(ctx uint64, members []int, me int) (t *Team, at Place, ok bool) {
	e.enter()
	defer e.leave()
	e.forgetGone()
	home := e.homeOfBoards()
	if home == nil || e.abort.Load() != nil || len(members) < 2 || e.teams[ctx] != nil {
		return nil, at, false
	}
	for i, rank := range members {
		if i != me && e.peerBoard(home, rank, 0) == nil {
			return nil, at, false
		}
	}
	sizes := home.Boards()
	slot := e.freeBoard(min(len(sizes), boardDepth))
	if slot < 0 {
		return nil, at, false
	}
	own, size := &e.boards[slot], sizes[slot]
	t = &Team{
		e: e, ctx: ctx, members: slices.Clone(members), me: me, home: home,
		slot: slot, size: size, piece: pieceOf(size), base: own.base, seats: make([]seat, len(members)),
	}
	for i, rank := range members {
		t.seats[i].rank, t.seats[i].from = rank, nowhere
	}
	t.own = boardIn(home.Board(slot), t.piece)
	t.arrange()
	own.team = t
	if e.teams == nil {
		e.teams = make(map[uint64]*Team)
	}
	e.teams[ctx] = t
	t.settle()
	return t, Place{Board: int32(slot), Size: int32(size), Base: t.base}, true
}

// JoinTeam begins a team that all its members have opened; places are what they
// were told by OpenTeam, by place. An error names a member whose place cannot be.
func (e *Engine) JoinTeam(t *Team, places []Place) error {
	e.enter()
	defer e.leave()
	if len(places) != len(t.seats) {
		return fmt.Errorf("%w: %d places of %d", errCorrupt, len(places), len(t.seats))
	}
	for i, a := range places {
		if a.Board < 0 || a.Board >= boardDepth || int(a.Size) < BoardSize(lineSize) || a.Base%boardDepth != 0 {
			return fmt.Errorf("%w: rank %d says that its board is number %d of %d bytes from %d", errCorrupt, t.members[i], a.Board, a.Size, a.Base)
		}
		t.seat(i, int(a.Board), a.Base)
		t.size = min(t.size, int(a.Size))
	}
	t.piece = pieceOf(t.size)
	t.own.piece = t.piece
	t.joined = true
	t.settle()
	return nil
}

// CloseTeam gives the team up, joined or not: the rank takes no further turn of
// it. Its board is used again when all members have given the team up.
func (e *Engine) CloseTeam(t *Team) {
	e.enter()
	defer e.leave()
	if t.closed || e.teams[t.ctx] != t {
		return
	}
	t.closed = true
	last := t.base + t.turn + 1
	e.boards[t.slot].base = last/boardDepth*boardDepth + boardDepth
	t.own.lines[boardDepth].post(last)
	e.boards[t.slot].bye = last
	if !t.joined { // here; others may have, and wait for the farewell
		e.forget(t)
		return
	}
	for i := range t.seats {
		if t.seats[i].mirror {
			e.enlist(&e.peers[t.members[i]])
		}
	}
}

// Piece returns the longest payload in bytes that a line may have.
func (t *Team) Piece() int { return t.piece }

// Over reports whether the team had better be given up, because some member no
// longer reaches all boards. All members are told the same after the same turn.
func (t *Team) Over() bool { return t.over }

// homeOfBoards returns the module whose boards are used.
func (e *Engine) homeOfBoards() Boards {
	for _, m := range e.modules {
		if b, ok := m.(Boards); ok {
			return b
		}
	}
	return nil
}

// peerBoard returns that board of a peer, nil if it is not in reach.
func (e *Engine) peerBoard(home Boards, rank, i int) []byte {
	if home == nil || uint(rank) >= uint(e.size) || rank == e.rank {
		return nil
	}
	pr := &e.peers[rank]
	if b, _ := pr.mod.(Boards); b != home || pr.failed != nil {
		return nil
	}
	return home.PeerBoard(rank, i)
}

// freeBoard returns the number of a board of which nobody reads, -1 if there is
// none.
func (e *Engine) freeBoard(n int) int {
	for len(e.boards) < n {
		e.boards = append(e.boards, ownBoard{})
	}
	for i := range n {
		if e.boards[i].team == nil {
			return i
		}
	}
	return -1
}

// forgetGone forgets the teams that all members have given up.
func (e *Engine) forgetGone() {
	for _, t := range e.teams {
		if t.closed && t.gone() {
			e.forget(t)
		}
	}
}

// gone reports whether all members have given the team up.
func (t *Team) gone() bool {
	for i := range t.seats {
		s := &t.seats[i]
		switch {
		case i == t.me || t.e.peers[s.rank].failed != nil:
		case s.mirror && !(s.left && s.bye):
			return false
		case !s.mirror && !s.left && s.lines[boardDepth].number() <= s.base:
			return false
		}
	}
	return true
}

// forget ends all that the engine knows of a team.
func (e *Engine) forget(t *Team) {
	e.boards[t.slot].team = nil
	delete(e.teams, t.ctx)
	for i := range t.seats {
		if t.seats[i].mirror {
			pr := &e.peers[t.members[i]]
			pr.lines = slices.DeleteFunc(pr.lines, func(l lineTo) bool { return l.t == t })
		}
	}
}

// settle finds out how this rank sees each member.
func (t *Team) settle() {
	t.direct, t.apart = t.direct[:0], 0
	for i := range t.seats {
		s := &t.seats[i]
		if i == t.me {
			s.board, s.base = t.own, t.base
			continue
		}
		mem := t.e.peerBoard(t.home, s.rank, s.slot)
		if len(mem) < t.size {
			t.mirror(i)
			continue
		}
		s.board, s.base, s.mirror = boardIn(mem, t.piece), s.from, false
		t.direct = append(t.direct, s.rank)
	}
	t.readAgain()
}

// failTeams fails the turns that cannot end without the peer.
func (e *Engine) failTeams(pr *peer) {
	for _, t := range e.teams {
		if slices.Contains(t.members, pr.rank) {
			if t.dead++; t.now.busy && !t.now.done && t.advance() {
				e.endTurn(t)
			}
		}
	}
}

// poisonTeam fails the turn of the team of a context, unless all lines are there:
// whoever has failed since has ended it, too.
func (e *Engine) poisonTeam(ctx uint64, err error) {
	if t := e.teams[ctx]; t != nil && t.now.busy && !t.now.done {
		if !t.now.posted || !t.read() {
			t.fail(err)
		}
		e.endTurn(t)
	}
}
