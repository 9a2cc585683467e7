package sim

import "slices"

// trouble is what happens to a machine, planned as deaths are.
type trouble struct {
	step  int64
	event int
	what  troubleKind
	spell int64 // steps until it is over
}

type troubleKind uint8

const (
	powerCut troubleKind = iota // it comes back with nothing running
	frozen
	unplugged // cut off from all
	deafened  // hears nothing of the head
	muted     // is not heard by it
	cutOff    // both
	slowed
	severed // from another one, while the head sees both
	leaves  // in order
	troubleKinds
)

func (k troubleKind) String() string {
	return [...]string{"loses its power", "is frozen", "is unplugged", "hears nothing of the head", "is not heard by the head",
		"is cut off from the head", "has a slow link", "is cut from another", "is told to leave"}[k]
}

// troubles plans what goes wrong with machines.
func (w *world) planTroubles() {
	l := terms.L.Milliseconds()
	for range w.plan.troubles {
		t := trouble{what: troubleKind(w.rng.IntN(int(troubleKinds))), spell: 1 + w.rng.Int64N([]int64{l / 4, l, 4 * l}[w.rng.IntN(3)])}
		if w.plan.memory != nil && w.rng.IntN(2) == 0 {
			t.what = powerCut
		}
		if t.what == severed && w.rng.IntN(4) > 0 {
			t.spell = 1 << 40 // nobody sees to it as long as the job goes on
		}
		if w.rng.IntN(2) == 0 {
			t.step = 1 + w.rng.Int64N(int64(w.np*w.plan.rounds*120))
		} else {
			t.event = 1 + w.rng.IntN(12*w.np)
		}
		w.troubles = append(w.troubles, t)
	}
}

// maybeTrouble lets what is due happen to some machine, and be over.
func (w *world) maybeTrouble() {
	for i, r := range w.repairs {
		if w.now >= r.at {
			w.repairs = slices.Delete(w.repairs, i, i+1)
			r.do()
			return
		}
	}
	for i, t := range w.troubles {
		if t.step > 0 && w.now >= t.step || t.event > 0 && w.crossing >= t.event {
			w.troubles = slices.Delete(w.troubles, i, i+1)
			w.machines[w.rng.IntN(len(w.machines))].befalls(t)
			return
		}
	}
}

func (m *machine) befalls(t trouble) {
	w := m.w
	w.logf("machine %d %v for %d steps", m.index, t.what, t.spell)
	w.seen.troubles++
	switch t.what {
	case powerCut:
		m.off = true
		m.end("is off")
	case frozen:
		m.frozen = true
	case unplugged:
		m.alone, m.up, m.down = true, false, false
	case deafened:
		m.down = false
	case muted:
		m.up = false
	case cutOff:
		m.up, m.down = false, false
	case slowed:
		m.slow = true
	case severed:
		m.severs()
	case leaves:
		m.leaves()
	}
	w.repairs = append(w.repairs, task{w.now + t.spell, m.repaired})
}

// repaired is the end of all troubles of a machine.
func (m *machine) repaired() {
	m.w.logf("machine %d is well", m.index)
	if m.frozen && !m.ended {
		m.w.seen.thawed++
	}
	m.w.sewn(m)
	m.off, m.frozen, m.alone, m.slow, m.up, m.down = false, false, false, false, true, true
	if m.w.rng.IntN(4) > 0 {
		m.w.repairs = append(m.w.repairs, task{m.w.now + 1 + m.w.rng.Int64N(terms.L.Milliseconds()/8), m.rejoins})
	}
}

// succeeded is the end of the head, or its beginning to be one of two: somebody has started
// another, which takes the job's record. What the old one had started ends with its
// connections, if somebody sees that, or with its leases: the new one waits for these.
func (w *world) succeeded(images []*image) {
	for _, m := range w.machines {
		if w.rng.IntN(2) == 0 && !w.breaks(twoHeads) {
			w.repairs = append(w.repairs, task{w.now + 1 + w.rng.Int64N(terms.L.Milliseconds()/4), m.orphaned(w.head)})
		}
	}
	for _, r := range w.ranks { // those of the head's machine end with it
		if w.of(r.id) == nil {
			r.ends(0)
		}
	}
	w.endShades(func(s *shade) bool { return s.n.m == nil }, 0)
	w.seen.succeeded++
	w.launch(images, false, true)
}

// orphaned ends a machine that sees that its head is gone.
func (m *machine) orphaned(old *head) func() {
	return func() {
		if m.moves() && m.down && m.w.head.waits > 0 {
			m.end("has lost its head")
		}
	}
}
