package mpi

import (
	"math"
	"reflect"
	"slices"

	"github.com/gorun-mpi/gorun/rpi"
)

// Collectives through memory that several ranks see, without messages: the ranks
// of a communicator that are on one node are a team (see rpi.Team), in which each
// writes a board that all read. A collective is one or more turns; in a turn
// everybody posts one line and reads those of the members it needs. What does not
// fit into a line goes in pieces, a turn each.
//
// Nothing of this file shows in an image but what the team keeps private: a
// rank that is restarted in the middle of a turn goes on with it, by whatever
// carries its messages, and afterwards the communicator works with messages.

// team is a rank's place among those of its node.
type team struct {
	*rpi.Team          // nil: it uses messages
	ranks     []int    // of the communicator, by place; nil: the same
	place     int      // this rank's
	history   uint16   // hash of all calls of the communicator, see take
	turn      rpi.Turn // the one in progress
	again     uint64   // number of the call from which on it may try to join
	pause     uint64   // how many calls it has waited for that
}

// After an attempt to join that came to nothing, and after the end of a team,
// this many calls at least and at most use messages before it tries again.
const (
	leastPause = 16
	mostPause  = 4096
)

// joined reports whether this rank's node has a team. The first call that wants
// one makes it, of the messages of an ordinary collective; not one with a root,
// which need not wait for everybody. That it is over is known to all members
// before the same call. So all decide alike.
func (x *collective) joined() (bool, error) {
	t := &x.c.coll.team
	if t.Team != nil && t.Over() {
		x.eng.CloseTeam(t.Team)
		t.Team = nil
		t.rest(x.seq)
	}
	if t.Team == nil && x.seq >= t.again && !x.kind.rooted() {
		if err := x.join(); err != nil {
			return false, err
		}
	}
	return t.Team != nil, nil
}

// rest puts the next attempt to join off.
func (t *team) rest(seq uint64) {
	t.pause = min(max(2*t.pause, leastPause), mostPause)
	t.again = seq + t.pause
}

// join makes the team of the ranks of the node, if all of them can.
func (x *collective) join() error {
	t := &x.c.coll.team
	var n int
	if t.ranks, t.place, n = x.neighbours(); n == 1 {
		t.again = math.MaxUint64
		return nil
	}
	world := make([]int, n)
	for i := range world {
		world[i] = x.c.toWorld(t.rank(i))
	}
	open, at, ok := x.eng.OpenTeam(x.c.ctx|1, world, t.place)
	if !ok {
		at.Board = -1
	}
	places, err := x.places(at, n)
	ok = err == nil && !slices.ContainsFunc(places, func(p rpi.Place) bool { return p.Board < 0 })
	if ok {
		if err = x.eng.JoinTeam(open, places); err == nil {
			t.Team, t.pause = open, 0
			return nil
		}
	}
	if open != nil {
		x.eng.CloseTeam(open)
	}
	t.rest(x.seq)
	return err
}

// places returns what every member says of its place, in which Board is -1 where
// it has none. All tell the first, which tells all.
func (x *collective) places(at rpi.Place, n int) ([]rpi.Place, error) {
	t := &x.c.coll.team
	all := make([]byte, n*rpi.PlaceSize)
	of := func(i int) []byte { return all[i*rpi.PlaceSize : (i+1)*rpi.PlaceSize] }
	at.Encode(of(t.place))
	elem := x.t
	x.t = &basics[reflect.Uint8]
	err := x.tellAll(all, of)
	x.t = elem
	places := make([]rpi.Place, n)
	for i := range places {
		places[i].Decode(of(i))
	}
	return places, err
}

func (x *collective) tellAll(all []byte, of func(place int) []byte) error {
	t := &x.c.coll.team
	n, first := len(all)/rpi.PlaceSize, t.rank(0)
	if t.place != 0 {
		return x.exchange(first, of(t.place), first, all)
	}
	for i := 1; i < n; i++ {
		x.get(t.rank(i), of(i))
	}
	if err := x.run(); err != nil {
		return err
	}
	for i := 1; i < n; i++ {
		x.put(t.rank(i), all)
	}
	return x.run()
}

// neighbours returns the ranks of this one's node.
func (x *collective) neighbours() (ranks []int, place, n int) {
	s, me := x.c.coll.nodes, x.c.rank
	if s == nil {
		return nil, me, x.c.size
	}
	ranks = s.ranks[s.of[me]]
	return ranks, slices.Index(ranks, me), len(ranks)
}

// rank is the one that has a place in the team.
func (t *team) rank(place int) int {
	if t.ranks == nil {
		return place
	}
	return t.ranks[place]
}

// placeOf is the place that a rank has.
func (t *team) placeOf(rank int) int {
	if t.ranks == nil {
		return rank
	}
	return slices.Index(t.ranks, rank)
}

// leaveTeam ends this rank's part in it.
func (c *core) leaveTeam() {
	if t := &c.coll.team; t.Team != nil {
		c.env.eng.CloseTeam(t.Team)
		t.Team = nil
	}
}

// take takes a turn, in which all members must be of one mind. Not everybody reads
// everybody's line in each of them, nor are messages of other calls seen: a
// disagreement that nobody has seen shows in the tags of all later turns.
func (x *collective) take(turn rpi.Turn) error {
	t := &x.c.coll.team
	turn.Tag = x.tag&^0xffff | int32(t.history)
	t.turn = turn
	s, err := x.eng.Take(t.Team, &t.turn, x.c.view)
	t.turn = rpi.Turn{} // the buffers are the caller's
	if err == nil && (int32(s.Tag) != turn.Tag || s.Bytes != turn.Want) {
		err = x.differs(t.rank(s.Source), &s, turn.Tag, turn.Want)
	}
	return err
}

// piece is how many bytes go in a turn at most.
func (x *collective) piece(segment int) int {
	most := x.c.coll.team.Piece()
	if segment > 0 {
		most = min(most, max(segment, x.leastPiece()))
	}
	return most
}

// leastPiece is an element for each rank, and one more.
func (x *collective) leastPiece() int { return (x.c.size + 1) * x.t.Size }

// strips are pieces of n blocks at once, of which each has so many bytes: f is
// called with the part of every block whose turn it is, at least once.
func strips(n, bytes, most int, f func(off, k int) error) error {
	step := max(most/n, 1)
	if turns := (bytes + step - 1) / step; turns > 1 { // whole lines of memory each, if that takes no more turns
		step = min(step, ((bytes+turns-1)/turns+63)&^63)
	}
	for off := 0; ; off += step {
		if err := f(off, min(step, bytes-off)); err != nil || off+step >= bytes {
			return err
		}
	}
}

// bcastShared gives p of one member to all.
func (x *collective) bcastShared(p []byte, one, segment int) error {
	t := &x.c.coll.team
	return strips(1, len(p), x.piece(segment), func(off, k int) error {
		turn := rpi.Turn{Need: rpi.FromOne, One: one, Want: k, Len: k, Into: p[off : off+k]}
		if t.place == one {
			turn.Send, turn.Into, turn.Len = p[off:off+k], nil, 0
		}
		return x.take(turn)
	})
}

// gatherShared gives one member the blocks of all, in the order of their places.
func (x *collective) gatherShared(mine, p []byte, one, segment int) error {
	t := &x.c.coll.team
	return strips(1, len(mine), x.piece(segment), func(off, k int) error {
		turn := rpi.Turn{Need: rpi.ToOne, One: one, Send: mine[off : off+k], Want: k}
		if t.place == one {
			turn.Len, turn.Into, turn.Stride = k, p[off:], len(mine)
		}
		return x.take(turn)
	})
}
