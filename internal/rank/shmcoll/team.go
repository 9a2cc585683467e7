package shmcoll

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/backoff"
	"github.com/gorun-mpi/gorun/internal/rank/shared"
)

// Team is one of the teams of a rank. One goroutine at a time uses it, and holds the engine's
// lock.
type Team struct {
	set       *Set
	ctx       uint64
	members   []int
	me        int
	module    shared.Boards // whose board own is; nil: own is private memory
	own       board
	saved     board              // own, as it was when the gate was closed
	longs     [boardBulks]uint64 // the last lines with long payloads
	slot      int                // its number among this rank's boards
	base      uint64
	size      int // bytes of the boards
	piece     int // bytes of the longest payload
	seats     []Seat
	direct    []int // world ranks of the members that read this rank's board
	unreached int   // members that do not read it
	dead      int   // members that have failed
	joined    bool
	closed    bool
	spent     bool // a turn has failed
	over      bool
	turn      uint64 // the last turn whose line this rank has posted
	floor     uint64 // a turn whose line all members have posted
	order     []int  // the members' places, in the order of looking: see samecpu.go
	sameCPU   int    // members, from the first in order, that share this rank's CPU
	late      int    // which of these was waited for last: looked at first
	guide     int    // the place of the last member that told: asked first
	looker    backoff.Looker
	now       progress
	parts     [][]byte // scratch
}

// allEvery is how often each member waits for all.
const allEvery = boardDepth / 2

// nowhere is the base of a member's lines while it is not known: no line has such a number.
const nowhere = 1 << 63

// Seat is a member as this rank sees it.
type Seat struct {
	board         // its own, or a mirror of it
	from   uint64 // base of the numbers of its lines on its own board
	base   uint64 // the same on board: 0 on a mirror
	rank   int
	slot   int    // the number of its board
	size   int    // bytes of its board that it has offered; 0 until the team is joined
	known  uint64 // a turn whose line it has posted
	mirror bool   // board is a mirror; the next three are for that
	told   uint64 // the last line sent to it
	bye    bool   // it was told of the end
	left   bool   // it has said so
}

// Place describes a member's board to the others.
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

// id tells a member's board in this team from those in its earlier teams.
func (s *Seat) id() uint64 { return s.from | uint64(s.slot) }

// id is the same for this rank's own board.
func (t *Team) id() uint64 { return t.base | uint64(t.slot) }

// ownBoard is one of this rank's boards.
type ownBoard struct {
	team *Team
	base uint64 // of the next team
	bye  uint64 // the last farewell on it
}

// Open prepares a team of the members (world ranks, this one at place me) for a context, on a
// board of the module. The caller tells the others the Place at. If ok is false, this rank has no
// free board or does not reach another member's, and there is nothing to close.
func (s *Set) Open(module shared.Boards, ctx uint64, members []int, me int) (t *Team, at Place, ok bool) {
	s.forgetGone()
	if module == nil || len(members) < 2 || s.teams[ctx] != nil {
		return nil, at, false
	}
	for i, rank := range members {
		if i != me && s.host.Board(module, rank, 0) == nil {
			return nil, at, false
		}
	}
	sizes := module.Boards()
	slot := s.freeBoard(min(len(sizes), boardDepth))
	if slot < 0 {
		return nil, at, false
	}
	own, size := &s.boards[slot], sizes[slot]
	t = &Team{
		set: s, ctx: ctx, members: slices.Clone(members), me: me, module: module,
		slot: slot, size: size, piece: pieceOf(size), base: own.base, seats: make([]Seat, len(members)),
	}
	for i, rank := range members {
		t.seats[i].rank, t.seats[i].from = rank, nowhere
	}
	t.own = boardIn(module.Board(slot), t.piece)
	t.arrange()
	own.team = t
	s.teams[ctx] = t
	t.settle()
	return t, Place{Board: int32(slot), Size: int32(size), Base: t.base}, true
}

// Join begins a team that all its members have opened. places are what Open told them, by place.
// An error names a member whose Place is impossible.
func (s *Set) Join(t *Team, places []Place) error {
	if len(places) != len(t.seats) {
		return fmt.Errorf("%w: %d places of %d", ErrCorrupt, len(places), len(t.seats))
	}
	for i, a := range places {
		if a.Board < 0 || a.Board >= boardDepth || int(a.Size) < shared.BoardSize(lineSize) || a.Base%boardDepth != 0 {
			return fmt.Errorf("%w: rank %d says that its board is number %d of %d bytes from %d", ErrCorrupt, t.members[i], a.Board, a.Size, a.Base)
		}
		t.seat(i, int(a.Board), a.Base)
		t.seats[i].size = int(a.Size)
		t.size = min(t.size, int(a.Size))
	}
	t.piece = pieceOf(t.size)
	t.own.piece = t.piece
	t.joined = true
	t.settle()
	return nil
}

// Close gives the team up, joined or not: the rank takes no further turn of it. Its board is used
// again once all members have given the team up.
func (s *Set) Close(t *Team) {
	if t.closed || s.teams[t.ctx] != t {
		return
	}
	t.closed = true
	last := t.base + t.turn + 1
	s.boards[t.slot].base = last/boardDepth*boardDepth + boardDepth
	t.own.lines[boardDepth].post(last)
	s.boards[t.slot].bye = last
	if !t.joined { // here; others may have, and wait for the farewell
		s.forget(t)
		return
	}
	for i := range t.seats {
		if t.seats[i].mirror {
			s.host.Enlist(t.members[i])
		}
	}
}

// Piece returns the longest payload in bytes that a line may have.
func (t *Team) Piece() int { return t.piece }

// Over reports whether the team should be given up, because a member no longer reaches all boards.
// It changes after the same turn for all members.
func (t *Team) Over() bool { return t.over }

// freeBoard returns the number of a board that no member reads, -1 if there is none.
func (s *Set) freeBoard(n int) int {
	for len(s.boards) < n {
		s.boards = append(s.boards, ownBoard{})
	}
	for i := range n {
		if s.boards[i].team == nil {
			return i
		}
	}
	return -1
}

// forgetGone forgets the teams that all members have given up.
func (s *Set) forgetGone() {
	for _, t := range s.teams {
		if t.closed && t.gone() {
			s.forget(t)
		}
	}
}

// gone reports whether all members have given the team up.
func (t *Team) gone() bool {
	for i := range t.seats {
		s := &t.seats[i]
		switch {
		case i == t.me || t.set.host.Failed(s.rank) != nil:
		case s.mirror && !(s.left && s.bye):
			return false
		case !s.mirror && !s.left && s.lines[boardDepth].number() <= s.base:
			return false
		}
	}
	return true
}

// forget removes a team from the set.
func (s *Set) forget(t *Team) {
	s.boards[t.slot].team = nil
	delete(s.teams, t.ctx)
	t.sendNoLines()
}

// sendNoLines takes the team off the lists of members to whom lines are sent.
func (t *Team) sendNoLines() {
	for i := range t.seats {
		if t.seats[i].mirror {
			lines := &t.set.lines[t.members[i]]
			*lines = slices.DeleteFunc(*lines, func(l lineTo) bool { return l.t == t })
		}
	}
}

// settle finds out how this rank sees each member.
func (t *Team) settle() {
	t.direct, t.unreached = t.direct[:0], 0
	t.sendNoLines()
	for i := range t.seats {
		s := &t.seats[i]
		if i == t.me {
			s.board, s.base = t.own, t.base
			continue
		}
		mem := t.set.host.Board(t.module, s.rank, s.slot)
		if len(mem) < max(s.size, t.size) { // as its owner sees it
			t.mirror(i)
			continue
		}
		s.board, s.base, s.mirror = boardIn(mem, t.piece), s.from, false
		t.direct = append(t.direct, s.rank)
	}
	t.readAgain()
}

// Fail notes that a rank has failed: turns of its teams may not end any more.
func (s *Set) Fail(rank int) {
	for _, t := range s.teams {
		if t.Has(rank) {
			t.dead++
		}
	}
}

// Has reports whether the rank is a member.
func (t *Team) Has(rank int) bool { return slices.Contains(t.members, rank) }

// Poison fails the turn of the team of a context, and returns the team if it was in one. If all
// lines of the turn are there, the turn is over: a member that has failed since has ended it, too.
func (s *Set) Poison(ctx uint64, err error) *Team {
	t := s.teams[ctx]
	if t == nil || !t.now.busy || t.now.done {
		return nil
	}
	if !t.now.posted || !t.read() {
		t.Fail(err)
	}
	return t
}

// Even returns a CutError if a member of a team has taken another number of turns than this rank.
// Teams that are closed, not joined, or of a spoilt context do not count.
func (s *Set) Even(spoilt func(ctx uint64) bool) error {
	for _, t := range s.teams {
		if !t.joined || t.closed || spoilt(t.ctx) {
			continue
		}
		for i := range t.seats {
			s := &t.seats[i]
			ahead := s.at(t.turn+1).number() > s.base+t.turn
			if i != t.me && (ahead || t.turn > 0 && s.at(t.turn).number() < s.base+t.turn) {
				return &CutError{t.ctx, s.rank, ahead}
			}
		}
	}
	return nil
}
