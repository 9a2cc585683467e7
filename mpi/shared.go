package mpi

import (
	"math"
	"reflect"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Collectives through shared memory, without messages. The ranks of a communicator that are on one node form a
// team (see engine.Team). Each member writes a board that all read. A collective is one or more turns. In a
// turn every member posts one line, and reads the lines it needs. Data that does not fit into a line goes in
// pieces, a turn for each.
//
// An image holds nothing of this but what the team keeps in private memory. A rank that is restarted in the
// middle of a turn finishes it, over any transport. Then the communicator uses messages.

// team is a rank's part in the team of its node.
type team struct {
	*engine.Team             // nil: the communicator uses messages
	ranks        []int       // of the communicator, by place; nil: rank and place are the same number
	place        int         // this rank's
	history      uint16      // hash of all calls on the communicator, see take
	turn         engine.Turn // the one in progress
	again        uint64      // number of the first call that may try to join
	pause        uint64      // how many calls lie between the last try and that one
}

// After a failed try to join, and after the end of a team, at least leastPause and at most mostPause calls use
// messages before the next try.
const (
	leastPause = 16
	mostPause  = 4096
)

// joined reports whether this rank's node has a team. The first call without a root makes it, by the messages
// of an ordinary collective. A call with a root does not, because it need not wait for everybody. All members
// know of a team's end before the same call. So all decide alike.
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

// rest postpones the next try to join.
func (t *team) rest(seq uint64) {
	t.pause = min(max(2*t.pause, leastPause), mostPause)
	t.again = seq + t.pause
}

// mostTeam is the largest number of ranks of a node that form a team. Each rank maps the boards of all others.
// With 400 ranks on two CPUs that takes 4 s, and then a barrier takes 16 ms; with messages it takes 8 ms. Tests
// set other values.
var mostTeam = 128

// join makes the team of the node's ranks, if all of them can.
func (x *collective) join() error {
	t := &x.c.coll.team
	var n int
	if t.ranks, t.place, n = x.neighbours(); n == 1 || n > mostTeam {
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
	ok = err == nil && !slices.ContainsFunc(places, func(p engine.Place) bool { return p.Board < 0 })
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

// places returns the places of all members. Board is -1 for a member without a board. All send theirs to the
// first member, which sends all of them to everybody.
func (x *collective) places(at engine.Place, n int) ([]engine.Place, error) {
	t := &x.c.coll.team
	all := make([]byte, n*engine.PlaceSize)
	of := func(i int) []byte { return all[i*engine.PlaceSize : (i+1)*engine.PlaceSize] }
	at.Encode(of(t.place))
	x.t, x.elem = &basics[reflect.Uint8], x.t
	err := x.tellAll(all, of)
	x.t, x.elem = x.elem, nil
	places := make([]engine.Place, n)
	for i := range places {
		places[i].Decode(of(i))
	}
	return places, err
}

func (x *collective) tellAll(all []byte, of func(place int) []byte) error {
	t := &x.c.coll.team
	n, first := len(all)/engine.PlaceSize, t.rank(0)
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

// neighbours returns the ranks of this rank's node.
func (x *collective) neighbours() (ranks []int, place, n int) {
	s, me := x.c.coll.nodes, x.c.rank
	if s == nil {
		return nil, me, x.c.size
	}
	ranks = s.ranks[s.of[me]]
	return ranks, slices.Index(ranks, me), len(ranks)
}

// rank returns the rank at a place of the team.
func (t *team) rank(place int) int {
	if t.ranks == nil {
		return place
	}
	return t.ranks[place]
}

// placeOf returns the place of a rank.
func (t *team) placeOf(rank int) int {
	if t.ranks == nil {
		return rank
	}
	return slices.Index(t.ranks, rank)
}

// leaveTeam ends this rank's part in the team.
func (c *core) leaveTeam() {
	if t := &c.coll.team; t.Team != nil {
		c.env.eng.CloseTeam(t.Team)
		t.Team = nil
	}
}

// take takes a turn, on which all members must agree. A member does not read everybody's line in each turn, and
// sees no messages of other calls. So a turn's tag hashes all earlier calls: a disagreement that nobody has
// seen shows in the tags of all later turns.
func (x *collective) take(turn engine.Turn) error {
	t := &x.c.coll.team
	turn.Tag = x.tag&^0xffff | int32(t.history)
	t.turn = turn
	s, err := x.eng.Take(t.Team, &t.turn, x.c.view)
	t.turn = engine.Turn{} // the buffers belong to the caller again
	if err == nil && (int32(s.Tag) != turn.Tag || s.Bytes != turn.Want) {
		err = x.differs(t.rank(s.Source), &s, turn.Tag, turn.Want)
	}
	return err
}

// piece returns the largest number of bytes that go in a turn.
func (x *collective) piece(segment int) int {
	most := x.c.coll.team.Piece()
	if segment > 0 {
		most = min(most, max(segment, x.leastPiece()))
	}
	return most
}

// leastPiece is the size of one element for each rank, and one more.
func (x *collective) leastPiece() int { return (x.c.size + 1) * x.t.Size }

// strips cuts n blocks of the given length into the same pieces, and calls f for each piece with its offset and
// length. It calls f at least once.
func strips(n, bytes, most int, f func(off, k int) error) error {
	step := max(most/n, 1)
	if turns := (bytes + step - 1) / step; turns > 1 { // round up to whole cache lines, if that takes no more turns
		step = min(step, ((bytes+turns-1)/turns+63)&^63)
	}
	for off := 0; ; off += step {
		if err := f(off, min(step, bytes-off)); err != nil || off+step >= bytes {
			return err
		}
	}
}

// bcastShared copies p from one member to all.
func (x *collective) bcastShared(p []byte, one, segment int) error {
	t := &x.c.coll.team
	return strips(1, len(p), x.piece(segment), func(off, k int) error {
		turn := engine.Turn{Need: engine.FromOne, One: one, Want: k, Len: k, Into: p[off : off+k]}
		if t.place == one {
			turn.Send, turn.Into, turn.Len = p[off:off+k], nil, 0
		}
		return x.take(turn)
	})
}

// gatherShared copies the blocks of all members to one of them, in the order of their places.
func (x *collective) gatherShared(mine, p []byte, one, segment int) error {
	t := &x.c.coll.team
	return strips(1, len(mine), x.piece(segment), func(off, k int) error {
		turn := engine.Turn{Need: engine.ToOne, One: one, Send: mine[off : off+k], Want: k}
		if t.place == one {
			turn.Len, turn.Into, turn.Stride = k, p[off:], len(mine)
		}
		return x.take(turn)
	})
}
