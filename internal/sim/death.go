package sim

import (
	"slices"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/oob"
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
	w.seen.deaths++
	switch {
	case d.who >= 8:
		// The launcher's head: whatever it was doing, agents end their ranks.
		w.logf("the head dies")
		if w.head.last != 0 && w.store.pending[w.head.last] != nil && w.rng.IntN(2) == 0 {
			w.store.commit(w, w.head.last) // the rename was just done
		}
		w.restart()
	case d.who >= 6:
		a := w.rng.IntN(w.plan.agents)
		w.logf("agent %d dies", a)
		for _, r := range w.ranks {
			if w.agentOf(r.id) == a {
				r.agent.write = nil
				w.kill(r)
			}
		}
	default:
		w.kill(w.ranks[w.rng.IntN(w.np)])
	}
}

// kill ends a rank's process. Its peers find their connections lost, its agent
// tells the head; who is first is open.
func (w *world) kill(r *rank) {
	if !r.alive || r.left {
		return
	}
	w.logf("rank %d dies", r.id)
	r.alive = false
	w.someoneDied = true
	for _, m := range w.net.mods {
		c := m.out[r.id]
		if back := r.mod.out[m.rank]; c != nil || back != nil {
			m.down(r.id)
		}
	}
	h := w.head
	w.later(400, func() {
		w.headStep(ckpt.HeadEvent{Type: ckpt.HvDied, Rank: r.id, Err: "killed by signal 9"})
		if !h.doomed {
			h.doomed = true
			w.later(100, w.afterDeath)
		}
	})
}

// afterDeath starts the job again, once a commit under way is over.
func (w *world) afterDeath() {
	if w.head.m.Busy() {
		w.later(100, w.afterDeath)
		return
	}
	w.restart()
}

// restart begins the next incarnation from the newest snapshot.
func (w *world) restart() {
	w.seen.restarts++
	clear(w.store.pending) // half-written leftovers
	images := w.store.newest()
	if images != nil {
		w.seen.restored++
		w.logf("restart from a snapshot at round %d", images[0].state.round)
	}
	w.start(images)
}

// stopped is what follows a checkpoint-and-stop: the job has ended, and is
// started again from this very snapshot.
func (w *world) stopped(seq int) {
	for _, r := range w.ranks {
		if !r.alive {
			return // it died in the same moment; it is being restarted anyway
		}
	}
	if w.head.doomed {
		return
	}
	i := slices.IndexFunc(w.store.committed, func(s snapshot) bool { return s.seq == seq })
	images := w.store.committed[i].images
	for _, r := range w.ranks {
		if !r.drv.closed {
			w.violate("rank %d goes on computing although the job is stopped", r.id)
		}
	}
	if images[0].self {
		w.seen.restored++
		w.start(images)
		return
	}
	w.revive(images)
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
	w.begin()
	// The descriptors of before are dead; the transports may say so.
	for _, r := range w.ranks {
		for peer := range w.np {
			if peer != r.id && w.rng.IntN(3) == 0 {
				r.mod.sink.Down(peer, errPeerGone)
				w.seen.deadSockets++
			}
		}
		if w.breaks(socketsBeforeGate) {
			r.e.OpenGate()
			r.e.CloseGate()
		}
	}
	for _, r := range w.ranks {
		if _, err := r.mod.Restart(rpi.Env{Rank: r.id, Size: w.np, Incarnation: w.incarnation, Sink: r.e.Sink(0)}); err != nil {
			w.violate("rank %d: module does not restart: %v", r.id, err)
		}
	}
	for _, r := range w.ranks {
		if err := r.e.Restarted(nil, nil); err != nil {
			w.violate("rank %d: %v", r.id, err)
		}
		r.m = ckpt.NewRank(r.id, w.np, w.incarnation, w.plan.sparse)
		r.drv, r.agent = driver{closed: true}, imager{}
		r.points.armed = false
		r.reviving = true
		r.app.released = r.app.stage != starting
		r.init()
	}
}

// revived lets one rank go on.
func (r *rank) revived() {
	r.reviving = false
	r.drv.closed = false
	r.w.logf("rank %d goes on", r.id)
	r.e.OpenGate()
	if r.app.stage == finishing && !r.w.breaks(finalizeNotRepeated) {
		r.wantFinalize() // the head that heard it is another one
	}
}

// stale keeps some messages of the last incarnation on their way into the next.
func (w *world) stale() {
	old := w.oob
	w.oob = outOfBand{pairs: make(map[[2]int32]*pair)}
	n := 0
	for _, p := range old.active {
		for _, m := range p.msgs {
			if n < 20 && m.Kind != oob.Up && m.Kind != oob.Running && w.rng.IntN(2) == 0 {
				w.put(m.From, m.To, m)
				n++
			}
		}
	}
}
