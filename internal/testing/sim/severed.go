package sim

import (
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Two machines may be cut from one another while the head sees both. What ranks say of it is what rpi/tcp finds; what
// the head makes of it is package joblife's.

// severance is a cut between two machines; nil is the head's own.
type severance struct {
	a, b         *machine
	since, until int64 // until: 0 as long as it lasts
}

const (
	suspectAfter = 2000 // steps without an answer, from which on a rank says so
	suspectEvery = 500
	cutAfter     = 5000 // Config.CutMillis
)

// severs cuts a machine from another one with ranks, which may be that of the head.
func (m *machine) severs() {
	w := m.w
	other := w.of(w.rng.IntN(w.np))
	if other == m {
		other = nil
	}
	w.severed = append(w.severed, severance{a: m, b: other, since: w.now})
}

// sewn ends the cuts of a machine; with nil all of them.
func (w *world) sewn(m *machine) {
	for i := range w.severed {
		if s := &w.severed[i]; s.until == 0 && (m == nil || s.a == m || s.b == m) {
			s.until = w.now
		}
	}
}

// apart returns since when two machines are cut from one another, 0 if they are not.
func (w *world) apart(x, y *machine) (since int64) {
	for _, s := range w.severed {
		if s.until == 0 && (s.a == x && s.b == y || s.a == y && s.b == x) && (since == 0 || s.since < since) {
			since = s.since
		}
	}
	return since
}

// suspicions lets ranks tell the head of peers whose machines do not answer, and of those that do again.
func (w *world) suspicions() {
	if len(w.severed) == 0 || w.now%suspectEvery != 0 {
		return
	}
	for _, r := range w.ranks {
		if !r.alive || r.left || !r.up {
			continue
		}
		for peer := range w.np {
			if c := r.mod.out[peer]; c != nil {
				r.suspects(c)
			}
		}
	}
}

// suspects tells of the peer at the other end of a connection.
func (r *rank) suspects(c *conn) {
	w := r.w
	since := w.apart(w.of(r.id), w.of(c.to))
	switch {
	case since == 0 || c.atRest() && !c.refused: // what was refused is as good as on its way: a socket would have taken it
		if c.silent == 0 {
			return
		}
		c.silent = 0
	case c.silent == 0:
		c.silent = w.now // it may have been cut before anything was sent
		return
	case w.now-c.silent < suspectAfter:
		return
	}
	m := oob.Msg{Kind: oob.Suspect, From: int32(r.id), To: oob.Head, Incarnation: r.inc, A: uint64(c.to)}
	if c.silent > 0 {
		m.B = uint64(w.now - c.silent)
	}
	if w.breaks(suspectsAtOnce) && m.B > 0 {
		m.B += cutAfter
	}
	if !w.breaks(cutUnheard) {
		w.put(int32(r.id), oob.Head, m)
	}
}

// leavesOut takes the head's word that a machine is not to be used any more.
func (w *world) leavesOut(a *joblife.Action) {
	n := w.node(a)
	w.logf("head: agent %d is left out: %s", n.index, a.Text)
	w.seen.leftOut++
	if n.m == nil {
		w.violate("the head leaves out its own machine")
	}
	if !slices.ContainsFunc(w.severed, func(s severance) bool {
		until := s.until
		if until == 0 {
			until = w.now
		}
		return (s.a == n.m || s.b == n.m) && until-s.since >= cutAfter
	}) {
		w.violate("machine %d is left out, which was not cut from another for %d steps", n.m.index, cutAfter)
	}
	w.head.cut = true
	n.m.out = true
}
