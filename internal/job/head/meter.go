package head

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/storage/interval"
)

// The head tells the agents which work goes on beside their ranks, and they report what the ranks
// lose by it (interval.Phases, interval.Meter).

// beside describes the work that goes on beside the ranks of a life.
type beside struct {
	interval.Phases
	still, writing bool
	newest         uint32 // ends the phase in which the newest checkpoint was written
	stood, stolen  time.Duration
	self           bool // ranks have written that checkpoint themselves

	copying time.Duration // the cost so far of the copy to a level that is being made
	known   bool          // that was measured
	after   []func()      // to be called when no node owes an answer
}

// phase tells the agents if another phase has begun. It returns the number of the newest question.
func (inc *incarnation) phase() uint32 {
	if inc == nil || inc.h.opt.CR == "" {
		return 0
	}
	h, b := inc.h, &inc.beside
	nodes := 0
	for _, l := range inc.links {
		if len(l.ranks) > 0 {
			nodes++
		}
	}
	now := interval.Beside{Still: b.still, Writing: b.writing, Copying: h.copying, Mending: h.tending}
	n, next, begun := b.Enter(now, nodes, h.ran())
	if !begun {
		return n
	}
	for _, l := range inc.links {
		if len(l.ranks) > 0 {
			l.out.Send(oob.Msg{Kind: oob.Meter, From: oob.Head, To: oob.AgentAddr(l.index), Incarnation: inc.id, Attempt: n, A: uint64(next)})
		}
	}
	return n
}

// passed inspects a frame that the machine sends: it may close or open the gates.
func (inc *incarnation) passed(k oob.Kind) {
	g, b := &inc.gate, &inc.beside
	was := !g.closed.IsZero()
	g.passed(k)
	if is := !g.closed.IsZero(); is != was {
		b.still, b.writing = is, k == oob.Open
		inc.phase()
	}
}

// written records that the checkpoint is written, or given up.
func (inc *incarnation) written() (number uint32) {
	inc.beside.writing = false
	return inc.phase()
}

// metered takes an agent's answer.
func (inc *incarnation) metered(m *oob.Msg) {
	b, a := &inc.beside, &inc.h.auto
	if m.Incarnation != inc.id || inc != inc.h.inc {
		return
	}
	l, all := b.Told(m.Attempt, time.Duration(m.A), m.B > 0)
	if !all {
		return
	}
	switch {
	case !l.Known:
	case l.Phase == interval.Behind && l.Number == b.newest:
		lost := l.Time
		if b.self { // it wrote on threads of its own, which may or may not have used idle processors
			lost = max(lost, b.stolen)
		}
		a.Costs.Amend(b.stood + lost)
		inc.h.planNext()
	case l.Phase == interval.Copying:
		b.copying, b.known = b.copying+l.Time, true
	case l.Phase == interval.Mending && len(a.Restarts) > 0: // it is part of the restart
		a.Restarts.Amend(a.Restarts[len(a.Restarts)-1] + l.Time)
	}
	if after := b.after; !b.Owed() {
		b.after = nil
		for _, f := range after {
			f()
		}
	}
}

// copies begins to count what a copy to a level costs.
func (inc *incarnation) copies() {
	if inc != nil {
		inc.beside.copying, inc.beside.known = 0, false
		inc.phase()
	}
}

// whenTold calls f when no node owes an answer. It does not if the life ends before.
func (inc *incarnation) whenTold(f func()) {
	switch {
	case inc == nil:
	case !inc.beside.Owed():
		f()
	default:
		inc.beside.after = append(inc.beside.after, f)
	}
}
