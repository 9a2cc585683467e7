package sim

import (
	"slices"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/rpi"
)

// death is planned at a step, or at a number of events at the head, that is,
// at some step of the protocol.
type death struct {
	step  int64
	event int
	who   int // 0..5: a rank, 6, 7: an agent, 8, 9: the head
}

func (w *world) planDeaths() {
	for range w.plan.deaths {
		d := death{who: w.rng.IntN(10)}
		if w.rng.IntN(2) == 0 {
			d.step = 1 + w.rng.Int64N(int64(w.np*w.plan.rounds*120))
		} else {
			d.event = 1 + w.rng.IntN(12*w.np)
		}
		w.deaths = append(w.deaths, d)
	}
}

func (w *world) maybeDie() {
	for i, d := range w.deaths {
		if d.step > 0 && w.now >= d.step || d.event > 0 && w.crossing >= d.event {
			w.deaths = slices.Delete(w.deaths, i, i+1)
			w.die(d)
			return
		}
	}
}

func (w *world) die(d death) {
	h := w.head
	if h.waits > 0 {
		return // nobody of its own can die
	}
	w.seen.deaths++
	switch {
	case d.who == 9:
		if h.job.AllSpawned() && h.verdicts == 0 {
			w.logf("somebody ends the job")
			w.seen.interrupted++
			h.told = true
			w.feed(joblife.Event{Type: joblife.EvInterrupt})
		}
	case d.who == 8:
		// The launcher's head: whatever it was doing, agents end their ranks.
		w.logf("the head dies")
		if h.last != 0 && w.store.pending[h.last] != nil && w.memory.making[h.last] == nil && w.rng.IntN(2) == 0 {
			w.store.commit(w, h.last) // the rename was just done
		}
		w.memoryEnds()
		w.succeeded(w.newest())
	case d.who >= 6:
		n := h.nodes[w.rng.IntN(len(h.nodes))]
		if n.ended {
			return
		}
		h.cut = true
		if d.who == 7 {
			w.seen.cutLinks++
			n.end() // it lives, until the head ends it
			return
		}
		w.logf("agent %d dies", n.index)
		n.die()
	default:
		if r := w.ranks[w.rng.IntN(w.np)]; r.alive && !r.left {
			w.logf("rank %d dies", r.id)
			h.killed[r.id] = true
			r.ends(uint64(syscall.SIGKILL))
		}
	}
}

// revive is the restart of whole processes from images: here they are the
// processes themselves, which have stood still since. All that was bound to the
// machine is new: connections, head, incarnation.
func (w *world) revive(images []*image) {
	w.logf("whole processes come back")
	w.seen.revived++
	for _, r := range w.ranks {
		if !slices.Equal(images[r.id].sent, r.e.Sent()) || !slices.Equal(images[r.id].recv, r.e.Received()) {
			w.violate("rank %d has sent or received since it was captured", r.id)
		}
	}
	for _, r := range w.ranks {
		r.alive, r.up, r.made = true, false, false
	}
	// The descriptors of before are dead; the transports may say so.
	for _, r := range w.ranks {
		for peer := range w.np {
			if peer != r.id && w.rng.IntN(3) == 0 {
				r.mod.sink.Down(peer, errPeerGone)
				w.seen.deadSockets++
			}
		}
		if w.breaks(socketsBeforeGate) {
			r.openGate()
			r.closeGate()
		}
	}
	w.reshape()
	w.net.forgo()
	for _, r := range w.ranks {
		if _, err := r.mod.Restart(rpi.Env{Rank: r.id, Size: w.np, Incarnation: w.incarnation, Sink: r.e.Sink(0)}); err != nil {
			w.violate("rank %d: module does not restart: %v", r.id, err)
		}
	}
	for _, r := range w.ranks {
		if err := r.e.Restarted(r.mod.modules(), nil); err != nil {
			w.violate("rank %d: %v", r.id, err)
		}
		r.mod.spoil()
		r.inc, r.coming = w.incarnation, there
		r.m = ckpt.NewRank(r.id, w.np, r.inc, w.plan.sparse)
		r.drv, r.agent = driver{closed: true}, imager{}
		r.points.armed = false
		r.reviving = true
		r.app.released = r.app.stage != starting
		w.put(int32(r.id), oob.Head, oob.Msg{Kind: oob.Spawn, From: int32(r.id), To: oob.Head, A: oob.SpawnWaits, B: 7})
	}
	if w.breaks(letGoAlone) {
		w.head.nodes[0].letGo()
	}
}

// revived lets one rank go on: none before all are there. Where the head has died meanwhile, its
// successor has no agents yet, and the rank waits until its own agent ends it.
func (r *rank) revived() {
	nodes, agent := r.w.head.nodes, r.w.agentOf(r.id)
	if agent >= len(nodes) || !nodes[agent].let {
		return
	}
	for _, x := range r.w.ranks {
		if !x.made {
			r.w.violate("rank %d goes on before the head knows that rank %d is restored", r.id, x.id)
		}
	}
	r.reviving = false
	r.drv.closed = false
	r.w.logf("rank %d goes on", r.id)
	r.openGate()
	r.holdAgain()
	if r.app.stage == finishing && !r.w.breaks(finalizeNotRepeated) {
		r.wantFinalize() // the head that heard it is another one
	}
}

// stale keeps some messages of the last incarnation on their way into the next.
func (w *world) stale() {
	old := w.oob
	w.oob = outOfBand{pairs: make(map[[2]int32]*pair)}
	n := 0
	var late []letter
	for _, p := range old.active {
		late = append(late, p.msgs...)
	}
	for _, m := range append(w.strays, late...) {
		if n < 20 && m.Kind != oob.Up && m.Kind != oob.Running && !once(&m.Msg) && w.rng.IntN(2) == 0 {
			w.putLetter(m.From, m.To, m)
			n++
		}
	}
	w.strays = nil
}
