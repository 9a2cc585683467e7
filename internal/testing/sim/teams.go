package sim

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// team is some ranks that work together in steps: by turns of a team of the engine, if
// all of them can, else by messages, as package mpi does.
type team struct {
	ctx     uint64
	members []int
}

// step is one of them. Every member has a payload, which depends on all that it has
// received in earlier rounds.
type step struct {
	id    int
	team  int
	round int
	tag   int32
	need  engine.Need
	one   int // a place
	size  int
	how   how
	last  bool // afterwards the team is given up, and another is made for the next step
}

// how is what becomes of the payloads.
type how uint8

const (
	gathered     how = iota // each is wanted
	combined                // what they make together
	gatheredOnce            // gathered, put together by one
	combinedOnce
	hows
)

// makeTeams draws who works together.
func (g *program) makeTeams(rng *rand.Rand, p *plan) {
	for i := range p.teams {
		t := team{ctx: uint64(64+i) << 32}
		for r := range g.np {
			if i == 0 || rng.IntN(4) > 0 {
				t.members = append(t.members, r)
			}
		}
		if len(t.members) < 2 {
			t.members = []int{0, g.np - 1}
		}
		g.teams = append(g.teams, t)
	}
}

// together lets a team take steps.
func (g *program) together(rng *rand.Rand, p *plan, k int) {
	if len(g.teams) == 0 || rng.IntN(2) == 0 {
		return
	}
	i := rng.IntN(len(g.teams))
	t := &g.teams[i]
	s := step{team: i, round: k, need: engine.Everybody, size: []int{0, 8, 40, 44, 45, 200, 700}[rng.IntN(7)], how: how(rng.IntN(int(hows)))}
	if rng.IntN(3) == 0 || p.rooted && rng.IntN(8) > 0 {
		s.need, s.how, s.one = engine.FromOne+engine.Need(rng.IntN(2)), gathered, rng.IntN(len(t.members))
	}
	n := 1 + rng.IntN(3)
	if p.manySteps {
		n += rng.IntN(60)
	}
	for range n {
		s.id, s.tag = len(g.steps), int32(len(g.steps)*16)
		s.last = rng.IntN(20) == 0
		g.steps = append(g.steps, s)
		for _, r := range t.members {
			g.add(r, k, 0, op{step: s.id + 1})
		}
	}
}

// stepBit tells payloads of steps from events.
const stepBit = 1 << 24

// share is what the member at a place adds to the digest of who gets its payload.
func (g *program) share(s *step, place int) uint64 {
	return mix(uint64(stepBit|s.id)<<20 ^ g.acc[g.teams[s.team].members[place]][s.round])
}

// payload writes that member's.
func (g *program) payload(p []byte, s *step, place int) {
	content(p, stepBit|s.id, g.acc[g.teams[s.team].members[place]][s.round])
}

// from returns the places of those whose payloads a member gets.
func (g *program) from(s *step, place int) (from []int) {
	for i := range g.teams[s.team].members {
		switch {
		case s.need == engine.Everybody, s.need == engine.ToOne && place == s.one, s.need == engine.FromOne && i == s.one && place != s.one:
			from = append(from, i)
		}
	}
	return from
}

// gain is what a step adds to the sum of a member's round.
func (g *program) gain(s *step, place int) (sum uint64) {
	if s.size == 0 {
		return 0
	}
	for _, i := range g.from(s, place) {
		sum += g.share(s, i)
	}
	return sum
}

// member is a rank's part in a team.
type member struct {
	*engine.Team     // nil: messages
	steps, again int // taken, and after how many it is worth trying to make a team
	pause        int
}

// takeStep takes part in a step. It is for the caller.
func (r *rank) takeStep(s *step) {
	t, m := &r.w.prog.teams[s.team], &r.app.teams[s.team]
	place := slices.Index(t.members, r.id)
	if m.Team != nil && m.Over() {
		r.w.seen.over++
		r.leaveTeam(m)
		m.rests()
	}
	if m.Team == nil && m.steps >= m.again {
		if err := r.join(t, m, place); err != nil {
			r.fails(err)
			return
		}
	}
	m.steps++
	r.w.oracle.entered[s.id]++
	out, in := make([]byte, s.size), make([]byte, len(t.members)*s.size)
	r.w.prog.payload(out, s, place)
	var err error
	if m.Team != nil {
		r.caller.turn = true
		err = r.turns(s, m.Team, place, len(t.members), out, in)
		r.caller.turn = false
	} else {
		r.w.seen.stepsByMessage++
		err = r.messages(s, t, place, out, in)
	}
	if err != nil {
		r.fails(err)
		return
	}
	r.checkStep(s, t, place, in)
	r.app.sum += r.w.prog.gain(s, place)
	if s.last && m.Team != nil {
		r.leaveTeam(m)
	}
}

func (r *rank) leaveTeam(m *member) {
	r.w.logf("rank %d gives the team up after step %d", r.id, m.steps)
	r.e.CloseTeam(m.Team)
	m.Team = nil
}

// rests is called where a team cannot be made: the next attempt comes ever later.
func (m *member) rests() {
	m.pause = min(2*m.pause+1, 16)
	m.again = m.steps + m.pause
}

// join makes the team, if all members can. They tell one another by messages.
func (r *rank) join(t *team, m *member, place int) error {
	open, at, ok := r.e.OpenTeam(t.ctx|1, t.members, place)
	if !ok {
		at.Board = -1
	}
	r.caller.rest(outside)
	n := len(t.members)
	out, in := make([]byte, engine.PlaceSize), make([]byte, n*engine.PlaceSize)
	at.Encode(out)
	copy(in[place*engine.PlaceSize:], out)
	err := r.tell(t, place, -1, out, in, engine.Everybody, 0)
	if err != nil {
		return err
	}
	places := make([]engine.Place, n)
	for i := range places {
		places[i].Decode(in[i*engine.PlaceSize:])
		ok = ok && places[i].Board >= 0
	}
	r.caller.rest(outside)
	r.w.logf("rank %d, team %v: %v, team %v", r.id, t.members, places, ok)
	if ok {
		r.w.seen.teams++
		m.Team, m.pause = open, 0
		return r.e.JoinTeam(open, places)
	}
	if open != nil {
		r.e.CloseTeam(open)
	}
	m.rests()
	return nil
}

// turns takes the turns of a step, one for each piece of the payload.
func (r *rank) turns(s *step, t *engine.Team, place, n int, out, in []byte) error {
	for off, piece := 0, int32(0); ; piece++ {
		k := min(s.size-off, t.Piece())
		x := engine.Turn{Tag: s.tag + piece, Need: s.need, One: s.one, Send: out[off:][:k], Want: k, Len: k, Stride: s.size, Into: in[off:]}
		switch {
		case k == 0:
			x.Into = nil
		case s.need == engine.FromOne && place != s.one:
			x.Send = nil
		case s.need == engine.ToOne && place != s.one, s.need == engine.FromOne:
			x.Len = 0
		case s.how == combined || s.how == combinedOnce:
			x.Combine = exclusiveOr{}
		}
		x.Once = s.size > 0 && (s.how == gatheredOnce || s.how == combinedOnce)
		r.w.seen.turns++
		r.w.logf("rank %d, step %d of team %d: turn with %d bytes", r.id, s.id, s.team, k)
		st, err := r.e.Take(t, &x, nil)
		if err != nil {
			return err
		}
		if st.Tag != int(x.Tag) || st.Bytes != k {
			r.w.violate("rank %d, step %d: the line of place %d has tag %d and %d bytes, not %d and %d", r.id, s.id, st.Source, st.Tag, st.Bytes, x.Tag, k)
		}
		r.w.logf("rank %d, step %d of team %d: turn is over", r.id, s.id, s.team)
		if off += k; off == s.size {
			return nil
		}
	}
}

// exclusiveOr combines payloads.
type exclusiveOr struct{}

func (exclusiveOr) Combine(dst []byte, parts [][]byte) {
	clear(dst)
	for _, p := range parts {
		for i := range dst {
			dst[i] ^= p[i]
		}
	}
}

// messages takes a step without a team.
func (r *rank) messages(s *step, t *team, place int, out, in []byte) error {
	if s.need != engine.FromOne {
		copy(in[place*s.size:], out)
	}
	if err := r.tell(t, place, s.tag, out, in, s.need, s.one); err != nil {
		return err
	}
	if s.how == combined || s.how == combinedOnce {
		parts := make([][]byte, len(t.members))
		for i := range parts {
			parts[i] = bytes.Clone(in[i*s.size:][:s.size])
		}
		exclusiveOr{}.Combine(in[:s.size], parts)
	}
	if s.need == engine.FromOne && place != s.one {
		copy(in, in[s.one*s.size:][:s.size])
	}
	return nil
}

// tell sends out to those who need it, and receives what this rank needs.
func (r *rank) tell(t *team, place int, tag int32, out, in []byte, need engine.Need, one int) error {
	tag += 1 // of places: 0
	n := len(out)
	var moves []engine.Move
	for _, recv := range []bool{true, false} {
		for i, peer := range t.members {
			from, to := i, place
			if !recv {
				from, to = place, i
			}
			if i == place || need == engine.FromOne && from != one || need == engine.ToOne && to != one {
				continue
			}
			mv := engine.Move{Peer: peer, Recv: recv, Buf: out}
			if recv {
				mv.Buf = in[i*n:][:n]
			}
			moves = append(moves, mv)
		}
	}
	if len(moves) == 2 && moves[0].Recv && !moves[1].Recv {
		_, _, err := r.e.Exchange(moves[1].Peer, moves[1].Buf, moves[0].Peer, moves[0].Buf, t.ctx, tag, tag, &elem, nil)
		return err
	}
	_, err := r.e.Together(moves, t.ctx, tag, tag, &elem, nil)
	return err
}

// checkStep checks what a step has brought.
func (r *rank) checkStep(s *step, t *team, place int, in []byte) {
	w := r.w
	if n := w.oracle.entered[s.id]; len(w.prog.from(s, place)) == len(t.members) && n < len(t.members) {
		w.violate("rank %d is through with step %d, which %d of %d members have begun", r.id, s.id, n, len(t.members))
	}
	sum, want := make([]byte, s.size), make([]byte, s.size)
	for at, i := range w.prog.from(s, place) {
		w.prog.payload(want, s, i)
		if s.how == combined || s.how == combinedOnce {
			exclusiveOr{}.Combine(sum, [][]byte{bytes.Clone(sum), want})
			continue
		}
		if got := in[at*s.size:][:s.size]; !bytes.Equal(got, want) {
			w.violate("rank %d, step %d: payload of place %d is % x, not % x", r.id, s.id, i, got, want)
		}
	}
	if (s.how == combined || s.how == combinedOnce) && !bytes.Equal(in[:s.size], sum) {
		w.violate("rank %d, step %d: combined % x, not % x", r.id, s.id, in[:s.size], sum)
	}
}
