package twoslots

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"
)

// The model: a job on three nodes, its head, and frames between them that arrive at any time. All that the rule is about is the
// shipped Slots and Newest. The test tries every order of steps, with up to two nodes that are lost at any moment, and compares what a
// recovery finds with what was written.

const (
	nodes    = 3 // a rank on each of the first two
	mostSpec = 4
)

// spec is one piece: who holds it and which ranks' data it is made of.
type spec struct {
	piece   Piece
	holder  int
	members []int
}

// layout is a policy, laid out by hand.
type layout struct {
	name   string
	images []int // by group
	specs  []spec
}

var ring = layout{"ring", []int{1, 1}, []spec{
	{Piece{0, 0}, 0, []int{0}}, {Piece{0, 1}, 1, []int{0}},
	{Piece{1, 0}, 1, []int{1}}, {Piece{1, 1}, 2, []int{1}},
}}

var parity = layout{"parity", []int{2}, []spec{
	{Piece{0, 0}, 0, []int{0}}, {Piece{0, 1}, 1, []int{1}}, {Piece{0, 2}, 2, []int{0, 1}},
}}

// ownNode puts the replica of each rank on the rank's own node: what no policy does.
var ownNode = layout{"replica on the own node", []int{1, 1}, []spec{
	{Piece{0, 0}, 0, []int{0}}, {Piece{0, 1}, 0, []int{0}},
	{Piece{1, 0}, 1, []int{1}}, {Piece{1, 1}, 1, []int{1}},
}}

// mutant is a rule that is broken on purpose.
type mutant int

const (
	none         mutant = iota
	toggledEarly        // a holder takes its own whole piece for a complete snapshot
	notTold             // a life is not told to the holders, and frames do not say theirs: stale ones count
	mixedParity         // a part goes into whatever is being filled
	tornCounts          // a piece counts that is not whole
)

// frame is a piece on its way to its holder.
type frame struct {
	cut   Cut
	begun bool
	left  [2]bool // parts that have not arrived
}

type content struct{ cut [2]Cut } // who wrote each part, by member

type state struct {
	life     uint32
	seq      uint32
	running  bool  // an attempt
	cut      Cut   // of the attempt
	complete Cut   // the newest that the head has announced, or that the life began with
	sure     bool  // what is complete may be relied on: everything is protected
	told     uint8 // holders that were told of the life: all while it runs
	lost     uint8 // how many nodes were lost
	now      [mostSpec]frame
	stale    [mostSpec]frame // of what was given up
	shelves  [mostSpec]Slots
	data     [mostSpec][2]content
}

// model explores.
type model struct {
	layout
	mutant
	seqs    uint32 // snapshots in all lives
	losses  uint8  // of nodes, one after the other
	seed    maphash.Seed
	seen    map[uint64]bool
	todo    []state
	found   error // the first rule that was broken
	tried   int   // recoveries
	unlucky int   // recoveries that found nothing when nothing was promised
}

func (m *model) fail(s *state, format string, args ...any) {
	if m.found == nil {
		m.found = fmt.Errorf(format+"\n%+v", append(args, *s)...)
	}
}

// most bounds the search: more states than this are an error of the model.
const most = 3_000_000

// reach notes a state that was reached.
func (m *model) reach(s state) {
	if h := maphash.Comparable(m.seed, s); !m.seen[h] {
		m.seen[h] = true
		m.todo = append(m.todo, s)
	}
}

const all = 1<<nodes - 1

func (m *model) explore() {
	m.seed, m.seen = maphash.MakeSeed(), map[uint64]bool{}
	s := state{life: 1, told: all, sure: true}
	for i := range m.specs {
		if err := s.shelves[i].Restart(1, Cut{}); err != nil {
			m.found = err
		}
	}
	m.reach(s)
	for len(m.todo) > 0 && m.found == nil {
		if len(m.seen) > most {
			m.found = fmt.Errorf("more than %d states", most)
		}
		s := m.todo[0] // the shortest way to a fault is found first
		m.todo = m.todo[1:]
		m.steps(&s)
	}
}

// steps tries all that may happen next.
func (m *model) steps(s *state) {
	if s.told != all {
		m.tell(s)
	} else {
		m.attempt(s)
	}
	for i := range m.specs {
		m.deliver(s, i, true)
	}
	for n := range nodes {
		m.lose(*s, n)
	}
}

// tell tells one more holder of the life and, as the last, lets it have what it lacks.
func (m *model) tell(s *state) {
	for n := range nodes {
		if s.told&(1<<n) != 0 {
			continue
		}
		next := *s
		next.told |= 1 << n
		if m.mutant != notTold {
			for i, sp := range m.specs {
				if sp.holder == n {
					if err := next.shelves[i].Restart(s.life, s.complete); err != nil {
						m.fail(s, "holder %d of a life: %v", n, err)
					}
				}
			}
		}
		m.reach(next)
	}
}

func (m *model) attempt(s *state) {
	if !s.running {
		if !s.sure { // protect again what was lost
			next := *s
			m.protect(&next)
			m.reach(next)
		}
		if s.seq < m.seqs && s.sure {
			next := *s
			next.seq++
			next.running, next.cut = true, Cut{s.life, next.seq}
			for i, sp := range m.specs {
				next.now[i] = frame{cut: next.cut}
				for k := range sp.members {
					next.now[i].left[k] = true
				}
			}
			m.reach(next)
		}
	} else {
		whole := true
		for i := range m.specs {
			whole = whole && s.now[i].left == [2]bool{} && s.now[i].begun
			m.deliver(s, i, false)
		}
		next := *s // it is given up
		next.running = false
		m.giveUp(next)
		if whole {
			next := *s
			next.running, next.now = false, [mostSpec]frame{}
			next.complete = s.cut // the next Begin says so
			m.reach(next)
		}
	}
}

// giveUp ends what is under way. One frame of it at most is late, and any may be.
func (m *model) giveUp(s state) {
	now := s.now
	s.now, s.stale = [mostSpec]frame{}, [mostSpec]frame{}
	m.reach(s)
	for i, f := range now {
		if f.cut != (Cut{}) && (!f.begun || f.left != [2]bool{}) {
			s.stale = [mostSpec]frame{}
			s.stale[i] = f
			m.reach(s)
		}
	}
}

// deliver lets one more frame of a piece arrive, of the attempt or of one that is over.
func (m *model) deliver(s *state, i int, late bool) {
	f := s.now[i]
	if late {
		f = s.stale[i]
	}
	if f.cut == (Cut{}) || f.begun && f.left == [2]bool{} {
		return
	}
	cut := f.cut
	if late && m.mutant == notTold {
		cut.Life = s.shelves[i].life
	}
	put := func(next state, f frame) {
		if late {
			next.stale[i] = f
		} else {
			next.now[i] = f
		}
		m.reach(next)
	}
	if !f.begun {
		next := *s
		slot, err := next.shelves[i].Begin(cut, s.complete, len(m.specs[i].members))
		if err != nil && !late {
			m.fail(s, "piece %d: %v", i, err)
		}
		if err != nil {
			f = frame{} // refused
		} else {
			f.begun = true
			next.data[i][slot] = content{}
		}
		if err == nil && m.specs[i].piece.Index < m.images[m.specs[i].piece.Group] { // an image comes in one step: it does not travel
			if _, _, err := next.shelves[i].Add(cut, 0); err != nil {
				m.fail(s, "image %d: %v", i, err)
			}
			next.data[i][slot].cut[0] = f.cut
			f.left[0] = false
			if m.mutant == toggledEarly {
				next.shelves[i].Complete(cut)
			}
		}
		put(next, f)
		return
	}
	for k := range m.specs[i].members {
		if !f.left[k] {
			continue
		}
		next, g := *s, f
		g.left[k] = false
		into := cut
		if m.mutant == mixedParity {
			into = filling(&next.shelves[i], into)
		}
		slot, whole, err := next.shelves[i].Add(into, k)
		switch {
		case err != nil && !late && m.mutant != mixedParity:
			m.fail(s, "piece %d, part %d: %v", i, k, err)
		case err == nil:
			next.data[i][slot].cut[k] = f.cut
			if whole && m.mutant == toggledEarly {
				next.shelves[i].Complete(cut)
			}
		}
		put(next, g)
	}
}

// filling is the snapshot that a shelf is being filled with.
func filling(s *Slots, or Cut) Cut {
	for i := range s.slots {
		if sl := &s.slots[i]; sl.cut != (Cut{}) && !sl.whole {
			return sl.cut
		}
	}
	return or
}

// lose takes a node away. The job goes back: all that is left answers, and another node takes its place.
func (m *model) lose(s state, n int) {
	m.tried++
	before := s
	a := Answers{}
	for i, sp := range m.specs {
		if sp.holder == n {
			continue
		}
		r := s.shelves[i].Report()
		if m.mutant == tornCounts {
			r.Whole = nil
			for k := range s.shelves[i].slots {
				r.Whole = append(r.Whole, s.shelves[i].slots[k].cut)
			}
		}
		a[sp.piece] = append(a[sp.piece], r)
	}
	c, ok := Newest(m.images, a)
	if s.sure && s.complete != (Cut{}) && (!ok || c.Compare(s.complete) < 0) {
		m.fail(&before, "node %d is lost: %v was complete, and %v (%v) is found", n, s.complete, c, ok)
		return
	}
	if !ok && s.complete != (Cut{}) {
		m.unlucky++ // a second loss before all was protected again
		return
	}
	if ok && !m.right(&s, c, n) {
		m.fail(&before, "node %d is lost: %v is found, and is not what was written", n, c)
		return
	}
	if ran := s.told == all; ok && ran && c.Life != s.life && c != s.complete {
		m.fail(&before, "node %d is lost: %v is found, of a line that life %d has left", n, c, s.life)
		return
	}
	if s.lost++; s.lost == m.losses {
		return // nothing is asked of what follows
	}
	for i, sp := range m.specs {
		if sp.holder == n {
			s.shelves[i], s.data[i] = Slots{}, [2]content{}
		}
	}
	s.running = false
	s.life++
	s.complete, s.sure, s.told = c, c == (Cut{}), 0
	if s.now == [mostSpec]frame{} { // what was late before may still be
		m.reach(s)
	} else {
		m.giveUp(s)
	}
}

// right reports whether the pieces that a recovery would use hold what was written for the snapshot.
func (m *model) right(s *state, c Cut, lost int) bool {
	for i, sp := range m.specs {
		if sp.holder == lost {
			continue
		}
		sh := &s.shelves[i]
		slot, err := sh.Slot(c)
		if err != nil || !sh.slots[slot].whole && m.mutant != tornCounts || m.mutant == none && sh.life != s.life && c != s.complete {
			continue
		}
		for k := range sp.members {
			if s.data[i][slot].cut[k] != c {
				return false
			}
		}
	}
	return true
}

// protect makes the pieces again that a node has taken with it.
func (m *model) protect(s *state) {
	s.sure = true
	for i, sp := range m.specs {
		if _, err := s.shelves[i].Slot(s.complete); err == nil {
			continue
		}
		slot, err := s.shelves[i].Put(s.life)
		if err != nil {
			if m.mutant == none {
				m.fail(s, "piece %d is not made again: %v", i, err)
			}
			return
		}
		s.data[i][slot] = content{}
		for k := range sp.members {
			s.data[i][slot].cut[k] = s.complete
		}
	}
}

// In every order of steps a recovery finds the newest complete snapshot or a newer one, and what it finds is what was written.
// Three snapshots and a node that is lost at any moment; two snapshots and two nodes, the second also while the recovery from the first goes on.
func TestAllInterleavings(t *testing.T) {
	for _, l := range []layout{ring, parity} {
		for _, most := range []model{{seqs: 3, losses: 1}, {seqs: 2, losses: 2}} {
			m := &most
			m.layout = l
			m.explore()
			t.Logf("%s, %d snapshots, %d losses: %d states, %d recoveries", l.name, m.seqs, m.losses, len(m.seen), m.tried)
			if m.found != nil {
				t.Errorf("%s: %v", l.name, m.found)
			}
			if m.tried < 1000 {
				t.Errorf("%s: only %d recoveries were tried", l.name, m.tried)
			}
		}
	}
}

// Every rule is needed: a search finds what goes wrong without it.
func TestMutants(t *testing.T) {
	for _, c := range []struct {
		name string
		l    layout
		m    mutant
		most uint8 // nodes lost
	}{
		{"a slot is given up before the snapshot is complete everywhere", ring, toggledEarly, 1},
		{"a stale replica of an earlier life counts", ring, notTold, 2},
		{"parity of mixed snapshots", parity, mixedParity, 1},
		{"a torn piece counts", ring, tornCounts, 1},
		{"a replica on the own node", ownNode, none, 1},
	} {
		m := &model{layout: c.l, mutant: c.m, seqs: 3, losses: c.most}
		m.explore()
		if m.found == nil {
			t.Errorf("%s: not found in %d states", c.name, len(m.seen))
		} else {
			t.Logf("%s: found after %d states", c.name, len(m.seen))
		}
	}
}

func TestRefused(t *testing.T) {
	var s Slots
	if err := s.Restart(2, Cut{1, 5}); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(2, Cut{}); !errors.Is(err, ErrStale) {
		t.Errorf("the same life again: %v", err)
	}
	if _, err := s.Begin(Cut{1, 6}, Cut{}, 1); !errors.Is(err, ErrStale) {
		t.Errorf("of an earlier life: %v", err)
	}
	if _, err := s.Begin(Cut{2, 6}, Cut{}, MostMembers+1); err == nil {
		t.Error("too many parts")
	}
	if _, err := s.Begin(Cut{2, 6}, Cut{}, 2); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Add(Cut{2, 7}, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("a part of what nobody has begun: %v", err)
	}
	if _, whole, err := s.Add(Cut{2, 6}, 1); err != nil || whole || s.Missing(Cut{2, 6}) != 1 {
		t.Errorf("the first part: whole %v, %d missing, %v", whole, s.Missing(Cut{2, 6}), err)
	}
	if _, _, err := s.Add(Cut{2, 6}, 1); !errors.Is(err, ErrUnknown) {
		t.Errorf("the same part again: %v", err)
	}
	s.Drop(Cut{2, 6})
	if _, err := s.Slot(Cut{2, 6}); !errors.Is(err, ErrUnknown) {
		t.Errorf("dropped: %v", err)
	}
	if r := s.Report(); r.Life != 2 || r.From != (Cut{1, 5}) || slices.Contains(r.Whole, Cut{}) {
		t.Errorf("%+v", r)
	}
}
