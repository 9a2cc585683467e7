package sim

import (
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// outOfBand is the network between head, agents and ranks: in order between
// each two, at any speed otherwise.
type outOfBand struct {
	pairs  map[[2]int32]*pair
	active []*pair
}

type pair struct {
	from, to int32
	msgs     []letter
	on       bool // in active
	slow     int  // of so many turns it takes one; 0: each
}

func (w *world) put(from, to int32, m oob.Msg) {
	l := letter{m, w.started, 0}
	if m.From >= 0 {
		l.by = w.agentOf(int(m.From))
	}
	w.putLetter(from, to, l)
}

func (w *world) putLetter(from, to int32, m letter) {
	o := &w.oob
	p := o.pairs[[2]int32{from, to}]
	if p == nil {
		p = &pair{from: from, to: to}
		if w.rng.IntN(6) == 0 {
			p.slow = 2 + w.rng.IntN(60)
		}
		o.pairs[[2]int32{from, to}] = p
	}
	p.msgs = append(p.msgs, m)
	if !p.on {
		p.on = true
		o.active = append(o.active, p)
	}
}

// send puts a message on its way. What ranks say of their destinations goes by
// way of their agent, which adds it up.
func (w *world) send(m oob.Msg) {
	if m.From >= 0 && !w.ranks[m.From].alive {
		return
	}
	to := m.To
	if m.Kind == oob.Dests && m.From >= 0 {
		to = oob.AgentAddr(w.agentOf(int(m.From)))
	}
	w.put(m.From, to, m)
}

// agentOf is the agent of the rank's present process.
func (w *world) agentOf(r int) int { return w.at[r] }

// deliver hands one message over: the oldest of a pair chosen at random.
func (w *world) deliver() {
	o := &w.oob
	if len(o.active) == 0 {
		return
	}
	i := w.rng.IntN(len(o.active))
	p := o.active[i]
	if p.slow > 0 && w.rng.IntN(p.slow) != 0 {
		return
	}
	if !w.reaches(p.from, p.to, p.msgs[0].by) {
		return
	}
	m := p.msgs[0]
	p.msgs = p.msgs[1:]
	if len(p.msgs) == 0 {
		p.on = false
		o.active[i] = o.active[len(o.active)-1]
		o.active = o.active[:len(o.active)-1]
	}
	w.arrive(m)
	if w.rng.IntN(64) == 0 && !once(&m.Msg) {
		w.arrive(m) // twice: must be harmless
	}
}

// once reports whether a frame is harmful if it comes twice, which no stream does.
func once(m *oob.Msg) bool {
	return m.Kind == oob.Start && m.To >= 0 || m.Kind == oob.Address || m.Kind == oob.Reach
}

func (w *world) arrive(l letter) {
	m, began := l.Msg, l.began
	if w.log != nil {
		w.logf("%s -> %s: %s", party(m.From), party(m.To), say(m))
	}
	if m.Kind == oob.Dests && m.From >= 0 {
		w.addUp(m)
		return
	}
	if m.To == oob.Head {
		w.toHead(m, began, l.by)
		return
	}
	if m.To < oob.Head {
		if began == w.started && w.head.waits == 0 {
			w.head.nodes[-2-m.To].takes(&m)
		}
		return
	}
	r := w.ranks[m.To]
	if m.Kind == oob.Running {
		if m.Incarnation == r.inc {
			r.app.released = true
		}
		if r.coming == joined {
			r.drv.inbox = append(r.drv.inbox, ckpt.RankEvent{Type: ckpt.EvMsg, Msg: m})
		}
		return
	}
	if m.Kind == oob.Held {
		r.held(&m)
		return
	}
	if !r.alive || !r.up {
		if m.Kind == oob.Revert {
			r.intercepts(&m)
		}
		return
	}
	if w.breaks(revertForgets) && m.Kind == oob.Revert && m.To == 0 {
		return
	}
	if r.intercepts(&m) {
		return
	}
	attempt, _ := r.m.Attempt()
	if w.breaks(attemptIgnored) && m.Kind == oob.Bookmark && m.Attempt < attempt {
		m.Attempt = attempt
	}
	if w.breaks(incarnationIgnored) && m.Incarnation != w.incarnation && m.Kind != oob.Start && m.Kind != oob.Peers && m.Kind != oob.Routes {
		m.Incarnation, m.Attempt = w.incarnation, max(attempt, m.Attempt)
	}
	r.drv.inbox = append(r.drv.inbox, ckpt.RankEvent{Type: ckpt.EvMsg, Msg: m})
}

// addUp is the agent's part in the sparse schedule.
func (w *world) addUp(m oob.Msg) {
	if m.Incarnation != w.incarnation {
		return
	}
	a := w.agentOf(int(m.From))
	if w.breaks(reductionLosesOne) && m.From == 0 {
		m.Data = nil
	}
	sum, done, err := w.agents[a].Add(m)
	if err != nil {
		w.violate("agent %d: %v", a, err)
	}
	if done {
		sum.From, sum.To = oob.AgentAddr(a), oob.Head
		w.send(sum)
	}
}
