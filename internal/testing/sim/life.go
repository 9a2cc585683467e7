package sim

import (
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
)

// The simulator's side of the machine's decisions about the job's life, and what must
// hold of them.

// begins begins a life. Of those before nothing may be left that could act.
func (w *world) begins() {
	h := w.head
	if h.stopping != 0 {
		w.violate("a life begins after the last checkpoint, %d", h.stopping)
	}
	for _, r := range w.ranks {
		if r.alive && !r.left && (h.job.Life() > 1 || h.took) {
			w.violate("the next life begins while rank %d is alive", r.id)
		}
	}
	before := h.nodes
	w.begin()
	for _, s := range w.shades {
		if s.alive && (h.job.Life() > 1 || h.took) {
			w.violate("the next life begins while another process of rank %d is alive", s.rank)
		}
	}
	w.shades = nil
	h.killed, h.cut, h.final, h.attempt = make(map[int]bool), false, false, 0
	for _, n := range before {
		if n.bye && !n.gone { // the head has said so already
			w.later(100, n.leaves)
		}
	}
	h.orphans, h.reverting, h.voyage = make(map[int]bool), false, nil
	h.nodes = nil
	ev := joblife.Event{Type: joblife.EvBegun, Life: w.life()}
	ev.Begun.Incarnation = w.incarnation
	if h.whole {
		ev.Begun.Restore = 5_000_000
	}
	for i := range w.plan.agents {
		n := &node{w: w, index: i, life: w.life(), m: w.choose()}
		for r := range w.np {
			if w.agentOf(r) == i {
				n.ranks = append(n.ranks, r)
			}
		}
		if n.m != nil && n.m.out {
			w.violate("machine %d gets an agent, which was left out", n.m.index)
		}
		h.nodes = append(h.nodes, n)
		ev.Begun.Agents = append(ev.Begun.Agents, joblife.Agent{Host: "host", PID: 1 + i, Ranks: n.ranks, Own: n.m == nil})
	}
	h.lives = append(h.lives, h.nodes)
	w.settle()
	w.feed(ev)
}

// ordered tells the agents to start their ranks.
func (w *world) ordered() {
	h := w.head
	if h.whole {
		w.revive(h.from)
	} else {
		w.start(h.from)
	}
	for _, m := range w.machines {
		if m.ended { // since the head has chosen it
			for _, r := range m.ranks() {
				r.ends(0)
			}
		}
	}
	w.feed(joblife.Event{Type: joblife.EvOrdered, Life: w.life()})
	if w.breaks(initNotHeld) {
		w.allUp()
	}
}

// chooses finds the newest snapshot for the next life.
func (w *world) chooses(a *joblife.Action) {
	h := w.head
	w.logf("head: the job is to begin again: %s", a.Verdict.Text)
	if h.works > 0 {
		w.violate("a life is over while the storage is at work")
	}
	w.checkCause(&a.Verdict)
	w.seen.again++
	w.later(50, func() {
		ev := joblife.Event{Type: joblife.EvChosen}
		h.from, h.whole = w.newest(), false
		if h.from != nil {
			ev.Snapshot = w.store.seq
		}
		w.feed(ev)
	})
	if w.breaks(secondVerdict) {
		w.judged(a)
	}
}

// newest is what a restart goes on from.
func (w *world) newest() []*image {
	w.seen.restarts++
	clear(w.store.pending) // half-written leftovers
	images := w.store.newest(w)
	for seq := range w.memory.making {
		w.drops(seq)
		delete(w.memory.making, seq)
	}
	if images != nil {
		w.seen.restored++
		w.logf("restart from a snapshot at round %d", images[0].state.round)
	}
	return images
}

// judged takes the verdict: one a job.
func (w *world) judged(a *joblife.Action) {
	h := w.head
	v := &a.Verdict
	w.logf("head: verdict: status %d, rank %d: %s", v.Code, v.Rank, v.Text)
	if h.verdicts++; h.verdicts > 1 {
		w.violate("a second verdict: %s", v.Text)
	}
	h.verdict = *v
	if h.stopping != 0 && !h.told && v.Last != h.stopping {
		w.violate("the job was stopped with snapshot %d, and the verdict is of %d: %s", h.stopping, v.Last, v.Text)
	}
	if h.stopping == 0 && !h.told {
		w.checkCause(v)
	}
	if v.Code == 0 {
		if !w.everybodyLeft() {
			w.violate("the job has ended well, and not all ranks have")
		}
		for len(w.asks) > 0 { // those that come too late are told so
			q := w.asks[0]
			w.asks = w.asks[1:]
			w.ask(q)
		}
	}
	w.later(20, func() { w.feed(joblife.Event{Type: joblife.EvCleaned}) })
}

// checkCause compares a cause with what has happened: a rank that only met
// another's death is none.
func (w *world) checkCause(v *joblife.Verdict) {
	h := w.head
	switch {
	case v.Code == 0:
	case v.Rank >= 0 && !h.killed[v.Rank] && !h.blames(v.Rank):
		w.violate("rank %d is blamed (%s), those that died of themselves are %v", v.Rank, v.Text, h.killed)
	case v.Rank < 0 && !h.cut:
		w.violate("an agent is blamed (%s), none was lost", v.Text)
	}
}

// doomed reports whether ranks of this life have ended otherwise than on the
// head's word.
func (h *head) doomed() bool { return len(h.killed) > 0 || h.cut || h.told }

// jobOver is what follows the end of gorun: the program has finished, or somebody
// starts the job again.
func (w *world) jobOver() {
	h := w.head
	w.memoryEnds()
	for id, q := range h.asked {
		w.violate("request %d (%+v) was not answered", id, q)
	}
	for id := range h.moving {
		w.violate("request %d, for a move, was not answered", id)
	}
	if h.verdicts != 1 {
		w.violate("a job with %d verdicts", h.verdicts)
	}
	for _, n := range slices.Concat(h.lives...) {
		if !n.gone {
			w.violate("the job has ended, and agent %d of life %d is there", n.index, n.life)
		}
	}
	switch {
	case h.verdict.Code == 0:
		w.over = true
	case h.stopping != 0:
		w.stopped(h.stopping)
	default:
		w.sewn(nil) // the user has seen to the network
		w.launch(w.newest(), false, false)
	}
}

// stopped is what follows a checkpoint-and-stop: the job is started again from
// this very snapshot.
func (w *world) stopped(seq int) {
	i := slices.IndexFunc(w.store.committed, func(s snapshot) bool { return s.seq == seq })
	snap := &w.store.committed[i]
	images := snap.images
	if images[0].self {
		w.seen.restored++
		w.launch(images, false, false)
		return
	}
	if w.head.doomed() || snap.incarnation != w.incarnation { // what stands for the images has been touched
		w.launch(w.newest(), false, false)
		return
	}
	w.launch(images, true, false)
}
