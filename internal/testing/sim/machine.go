package sim

import (
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/lease"
)

// machine is a node other than the head's: a keeper with a lease, agents, ranks, a link to
// the head in each direction. It loses power, stands still, is cut off and comes back. The
// rules of its lease are those that ship; see package lease.
type machine struct {
	w     *world
	index int
	clock drifting

	off    bool // it has no power
	frozen bool // nothing on it moves, except the kernel's timers
	alone  bool // what its ranks exchange with other machines does not get through
	up     bool // what it sends gets to the head
	down   bool // what the head sends gets to it
	slow   bool // either takes its time
	out    bool // the head has left it out, see severance

	holder *lease.Holder // the keeper's; nil: the job has no keeper here
	ended  bool          // the keeper and all its agents and ranks have
	ending int64         // the step in which they will have, when the lease has run out; 0: it has not
	asked  int64         // when it asked last, by its clock
	asks   []passing     // to the head
	grants []passing     // from it
	words  []word        // to it, see join.go

	granter  *lease.Granter // the head's
	given    bool           // the head has given it up
	fencedAt int64          // by the head's clock, then
	fenced   bool           // that time has come, or it has left

	connection int64 // of its keeper, counted
	leaving    bool  // the head has heard so on this one
}

// passing is a frame between a keeper and the head.
type passing struct {
	value int64
	at    int64 // the step from which on it may arrive
}

// drifting is a clock that began anywhere and is too fast by up to 1 %.
type drifting struct{ began, rate int64 }

func (c drifting) read(now int64) int64 { return c.began + now*c.rate/1000 }

func (w *world) newClock() drifting {
	return drifting{w.rng.Int64N(1_000_000), 1000 + int64([]int{0, 5, 10}[w.rng.IntN(3)])}
}

// terms are those of all leases: a step is a millisecond. Schedules are short.
var terms = lease.Terms{L: 6 * time.Second, H: 400 * time.Millisecond}

// settling is how many steps it takes at most, from the end of a lease, until nothing of
// the machine acts.
const settling = 950

// newMachines makes the machines of a schedule.
func (w *world) newMachines() {
	if w.plan.machines == 0 {
		return
	}
	w.headClock = w.newClock()
	for i := range w.plan.machines {
		w.machines = append(w.machines, &machine{w: w, index: i, clock: w.newClock(), up: true, down: true, ended: true, given: true})
	}
}

// keepers starts a keeper on every machine that answers, for a new job.
func (w *world) keepers() {
	for _, m := range w.machines {
		m.holder, m.granter, m.asks, m.grants = nil, nil, nil, nil
		m.given, m.fenced, m.ending, m.out = true, true, 0, false
		if m.off || m.frozen || !m.up || !m.down {
			continue
		}
		m.begin()
	}
}

func newLease() (*lease.Holder, *lease.Granter) {
	return lease.NewHolder(terms), lease.NewGranter(terms)
}

// choose returns the machine for an agent, nil for the head's own.
func (w *world) choose() *machine {
	var live []*machine
	for _, m := range w.machines {
		if !m.given && (!m.out || w.breaks(leftOutUsed)) {
			live = append(live, m)
		}
	}
	if len(live) == 0 || w.rng.IntN(6) == 0 {
		return nil
	}
	return live[w.rng.IntN(len(live))]
}

func (m *machine) now() int64      { return m.clock.read(m.w.now) }
func (w *world) headNow() int64    { return w.headClock.read(w.now) }
func (m *machine) moves() bool     { return !m.off && !m.frozen && !m.ended }
func (m *machine) speaks() bool    { return m.moves() && m.up && !(m.slow && m.w.rng.IntN(20) > 0) }
func (m *machine) hears() bool     { return m.moves() && m.down && !(m.slow && m.w.rng.IntN(20) > 0) }
func (w *world) of(r int) *machine { return w.places[r].m }

// ranks are those that were placed on it.
func (m *machine) ranks() []*rank {
	return slices.DeleteFunc(slices.Clone(m.w.ranks), func(r *rank) bool { return m.w.of(r.id) != m })
}

// machinesTurn lets time pass on all machines.
func (w *world) machinesTurn() {
	if len(w.machines) == 0 {
		return
	}
	w.maybeTrouble()
	w.suspicions()
	for _, m := range w.machines {
		if m.holder != nil {
			m.expires()
			m.keep()
			m.grant()
			m.hear()
			m.watch()
		}
	}
}

// expires is the kernel's timer: it ends what the machine does for the job, whether frozen
// or not.
func (m *machine) expires() {
	w := m.w
	if m.off || m.ended || w.breaks(frozenOutlives) && m.frozen {
		return
	}
	if m.ending == 0 && m.now() >= m.holder.Until() {
		m.ending = w.now + 1 + w.rng.Int64N(settling)
		w.logf("the lease of machine %d runs out", m.index)
		w.seen.expired++
	}
	if m.ending != 0 && w.now >= m.ending {
		m.end("ends with its lease")
	}
}

// end ends the keeper, its agents and their ranks.
func (m *machine) end(how string) {
	w := m.w
	if m.ended {
		return
	}
	m.ended = true
	w.head.cut = true
	w.logf("machine %d %s", m.index, how)
	for _, n := range slices.Concat(w.head.lives...) {
		if n.m == m {
			n.dead = true
		}
	}
	for _, r := range m.ranks() {
		r.ends(0)
	}
	for _, s := range w.shades {
		if s.n.m == m && s.alive && !s.fresh && w.head.orphans != nil { // nobody can go back to it
			w.head.orphans[s.rank] = true
		}
	}
	w.endShades(func(s *shade) bool { return s.n.m == m }, 0)
}

// keep is the keeper: it asks, and takes grants.
func (m *machine) keep() {
	if !m.moves() {
		return
	}
	if now := m.now(); now >= m.asked+terms.H.Milliseconds() {
		m.asked = now
		m.asks = append(m.asks, m.passes(m.holder.Ask(now)))
	}
	if a, ok := m.arrives(&m.grants); ok && m.down {
		m.holder.Granted(a, m.now())
	}
}

func (m *machine) passes(value int64) passing {
	most := int64(100)
	if m.slow {
		most = terms.L.Milliseconds()
	}
	return passing{value, m.w.now + 1 + m.w.rng.Int64N(most)}
}

// arrives takes a frame that is due, perhaps twice, perhaps never.
func (m *machine) arrives(frames *[]passing) (int64, bool) {
	f := *frames
	if len(f) == 0 || f[0].at > m.w.now {
		return 0, false
	}
	a := f[0].value
	if m.w.rng.IntN(20) > 0 {
		*frames = f[1:]
	}
	return a, m.w.rng.IntN(20) > 0
}

// grant is the head's answer to what the keeper asks. A head whose place another has taken
// gives none: it looks at the record of the job before each.
func (m *machine) grant() {
	w := m.w
	a, ok := m.arrives(&m.asks)
	if !ok || !m.up || w.head.waits > 0 && !w.breaks(twoHeads) {
		return
	}
	if m.granter.Renew(a, w.headNow()) {
		m.grants = append(m.grants, m.passes(a))
	}
}

// watch is the head that looks after its machines: one that is silent is lost, and when
// its lease is over nothing of it can act.
func (m *machine) watch() {
	w := m.w
	if w.head.waits > 0 {
		return
	}
	if !m.given && m.granter.Silent(w.headNow()) {
		m.giveUp()
	}
	if m.given && !m.fenced && (w.headNow() >= m.fencedAt || w.breaks(leaseNotAwaited)) {
		m.fence()
	}
}

// acts is called when a rank is about to do something. It reports whether its machine lets
// it.
func (r *rank) acts() bool {
	m := r.w.of(r.id)
	if m == nil {
		return true
	}
	if m.off || m.frozen {
		return false
	}
	if m.fenced && r.alive && !r.left {
		r.w.violate("rank %d acts on machine %d, which is fenced", r.id, m.index)
	}
	return true
}

// reaches reports whether a frame of the out-of-band channel gets from one party to another
// now. Between ranks it passes the head.
func (w *world) reaches(from, to int32, by int) bool {
	return w.passesHead(from, by, (*machine).speaks) && w.passesHead(to, -1, (*machine).hears)
}

// passesHead is for one party. A rank that speaks does so by way of an agent.
func (w *world) passesHead(party int32, by int, does func(*machine) bool) bool {
	var m *machine
	switch {
	case party >= 0 && by >= 0 && by < len(w.head.nodes):
		m = w.head.nodes[by].m
	case party >= 0:
		m = w.of(int(party))
	case party < -1 && len(w.head.nodes) > int(-2-party):
		m = w.head.nodes[-2-party].m
	}
	return m == nil || does(m)
}

// place is where a rank's transport is to be found.
type place struct {
	m    *machine
	slot int // on it
	life int // in which it was opened
}

// settle gives the ranks of a new life their places.
func (w *world) settle() {
	w.places = make([]place, w.np)
	slots := map[*machine]int{}
	for _, n := range w.head.nodes {
		for _, r := range n.ranks {
			w.places[r] = place{n.m, slots[n.m], w.started}
			slots[n.m]++
		}
	}
}

// cut reports whether nothing gets from one rank's transport to another's.
func (w *world) cut(a, b int) bool {
	x, y := w.of(a), w.of(b)
	return x != y && (x != nil && (x.alone || x.off) || y != nil && (y.alone || y.off) || w.apart(x, y) > 0)
}
