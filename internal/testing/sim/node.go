package sim

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// node is an agent as the head knows it: it starts and reaps ranks, and has one
// stream, on which nothing comes after its end.
type node struct {
	w     *world
	index int
	life  int // of its job
	ranks []int
	m     *machine // nil: the head's own
	ended bool     // its stream
	dead  bool     // it, and its ranks
	gone  bool     // and the head was told
	let   bool     // restored ranks may go
	bye   bool     // it was dismissed
}

// node is the agent that an action is for.
func (w *world) node(a *joblife.Action) *node { return w.head.lives[a.Life-1][a.Agent] }

// present reports whether it is of the present life.
func (n *node) present() bool { return n.life == n.w.life() }

// goes tells the head that nothing of it is left.
func (n *node) goes() {
	if !n.gone {
		n.gone = true
		n.w.logf("agent %d of life %d is gone", n.index, n.life)
		n.w.feed(joblife.Event{Type: joblife.EvGone, Life: n.life, Agent: n.index})
	}
}

// nodesTurn lets one agent do what is due.
func (w *world) nodesTurn() {
	if nodes := w.head.nodes; len(nodes) > 0 && w.rng.IntN(8) == 0 {
		nodes[w.rng.IntN(len(nodes))].turn()
	}
}

func (n *node) turn() {
	switch {
	case n.dead && !n.ended:
		if n.m == nil || !n.m.off && n.m.up { // else no end of a stream gets here
			n.end()
		}
	case n.dead && !n.gone:
		if n.m == nil || n.m.speaks() { // its keeper says so
			n.goes()
		}
	case !n.ended && (n.m == nil || n.m.speaks()) && n.idle():
		n.ended = true
		n.w.logf("agent %d has nothing left to do", n.index)
		bye := oob.Msg{Kind: oob.Exit, From: oob.AgentAddr(n.index), To: oob.Head}
		n.w.feed(joblife.Event{Type: joblife.EvFrame, Life: n.life, Agent: n.index, Msg: bye})
	}
}

// idle reports whether all its ranks have ended and all was said of them.
func (n *node) idle() bool {
	if v := n.w.head.voyage; n.standsIn() || v != nil && slices.Contains(v.targets, n) {
		return false
	}
	for _, r := range n.ranks {
		x := n.w.ranks[r]
		if x.alive && !x.left || n.w.oob.underWay(int32(r), oob.Head) {
			return false
		}
	}
	return !n.w.oob.underWay(oob.AgentAddr(n.index), oob.Head)
}

// end ends its stream. What was on it is lost, or comes too late to count.
func (n *node) end() {
	w := n.w
	n.ended = true
	w.logf("the stream of agent %d ends", n.index)
	for _, r := range n.ranks {
		w.strays = append(w.strays, w.oob.take(int32(r), oob.Head)...)
	}
	w.oob.take(oob.AgentAddr(n.index), oob.Head)
	w.feed(joblife.Event{Type: joblife.EvLinkEnded, Life: n.life, Agent: n.index})
	if w.breaks(goneTooEarly) {
		n.goes()
	}
}

// die ends it, and with it its ranks.
func (n *node) die() {
	if n.dead || !n.present() {
		return
	}
	n.dead = true
	for _, r := range n.ranks {
		n.w.ranks[r].ends(0)
	}
	n.w.endShades(func(s *shade) bool { return s.n == n }, 0)
}

// killed is die, by way of its keeper, as soon as that can be told.
func (n *node) killed() {
	switch {
	case n.m == nil || n.m.hears():
		n.die()
	case !n.gone:
		n.w.later(200, n.killed)
	}
}

// leaves is goes, for an agent of a life that is over.
func (n *node) leaves() {
	switch {
	case n.m == nil || n.m.hears() && n.m.speaks():
		n.goes()
	case !n.gone:
		n.w.later(100, n.leaves)
	}
}

// takes is what it does with a frame of the head's that is for itself.
func (n *node) takes(m *oob.Msg) {
	w := n.w
	if n.dead || !n.present() {
		return
	}
	switch {
	case m.Kind == oob.KillAll && m.B == oob.Goodbye:
		n.die()
	case m.Kind == oob.KillAll:
		w.endShades(func(s *shade) bool { return s.n == n }, uint64(syscall.SIGKILL))
		for _, r := range n.ranks {
			x := w.ranks[r]
			if w.breaks(reapedTooEarly) && x.alive && !x.left {
				w.put(int32(r), oob.Head, oob.Msg{Kind: oob.Exit, From: int32(r), To: oob.Head, A: uint64(syscall.SIGKILL)})
				w.later(20_000, func() { x.ends(0) })
				x.reaped = true
				continue
			}
			x.ends(uint64(syscall.SIGKILL))
		}
	case m.Kind == oob.Signal && m.A != uint64(syscall.SIGCONT):
		for _, r := range n.ranks {
			if w.rng.IntN(4) > 0 { // the others see to it that they end, and do not
				w.ranks[r].ends(m.A)
			}
		}
	case m.Kind == oob.Start && m.Incarnation == w.incarnation && w.switched():
		n.embarks(m.Incarnation)
	case m.Kind == oob.Start:
		n.letGo()
	}
}

// letGo lets the restored ranks take their first step.
func (n *node) letGo() {
	w := n.w
	n.let = true
	for _, r := range n.ranks {
		if x := w.ranks[r]; x.alive && x.reviving && !x.up {
			w.put(int32(r), oob.Head, oob.Msg{Kind: oob.Spawn, From: int32(r), To: oob.Head, A: oob.SpawnRuns, B: 7})
			x.init()
		}
	}
}

// ends ends a rank's process, unless it has ended. Its peers find their connections
// lost, its agent tells the head how; who is first is open. With status 0 nobody is
// there to tell.
func (r *rank) ends(status uint64) {
	w := r.w
	if !r.alive || r.left {
		return
	}
	w.logf("rank %d ends, status %d", r.id, status)
	r.alive = false
	r.agent = imager{}
	if h := w.head; h.stopping == 0 || h.doomed() { // else it is what its image stands for
		w.someoneDied = true
		for _, m := range w.net.mods {
			if (m.out[r.id] != nil || r.mod.out[m.rank] != nil) && !w.cut(m.rank, r.id) {
				m.down(r.id)
			}
		}
	}
	if status != 0 && !r.reaped && w.head.waits == 0 && !w.head.nodes[w.agentOf(r.id)].ended {
		w.put(int32(r.id), oob.Head, oob.Msg{Kind: oob.Exit, From: int32(r.id), To: oob.Head, A: status})
	}
}

// givesUp is what a rank makes of the death of a peer: it stands until the restart,
// if there is to be one, else its program ends in its own way.
func (r *rank) givesUp() {
	w := r.w
	why := []byte(fmt.Sprint("peer failed: ", r.app.broken))
	how := w.rng.IntN(3)
	if r.stands = w.head.job.RestartsLeft(); r.stands {
		how = 0
	}
	switch how {
	case 0:
		w.send(oob.Msg{Kind: oob.Failure, From: int32(r.id), To: oob.Head, Incarnation: r.inc, B: 1, Data: why})
	case 1:
		w.send(oob.Msg{Kind: oob.AbortJob, From: int32(r.id), To: oob.Head, Incarnation: r.inc, A: 7, B: 1, Data: why})
	}
	w.seen.gaveUp++
	if !r.stands {
		r.ends(1 << 8)
	}
}

// allUp says of all ranks that they are up.
func (w *world) allUp() {
	for r := range w.np {
		w.toHead(oob.Msg{Kind: oob.Up, From: int32(r), To: oob.Head, Incarnation: w.incarnation}, w.started, w.agentOf(r))
	}
}

// letter is a message on its way, and the incarnation in which it was sent.
type letter struct {
	oob.Msg
	began int
	by    int // of a rank: its agent
}

// underWay reports whether messages between two are.
func (o *outOfBand) underWay(from, to int32) bool {
	p := o.pairs[[2]int32{from, to}]
	return p != nil && len(p.msgs) > 0
}

// take takes away what is on its way between two.
func (o *outOfBand) take(from, to int32) []letter {
	p := o.pairs[[2]int32{from, to}]
	if p == nil || len(p.msgs) == 0 {
		return nil
	}
	msgs := p.msgs
	p.msgs, p.on = nil, false
	o.active = slices.DeleteFunc(o.active, func(x *pair) bool { return x == p })
	return msgs
}
