package sim

import (
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// holder is a goroutine of the program, beside the others, that now and then enters a section in which no
// checkpoint may fall.
type holder struct {
	n     uint64 // sections so far
	state holdState
	left  int // turns that the section still takes
}

type holdState uint8

const (
	notHolding holdState = iota
	asking               // waits for the head's word
	inside
)

// holds reports whether the rank has such a goroutine, and it can do something now.
func (r *rank) holds() bool {
	return r.w.plan.holds && r.app.released && r.app.broken == nil && r.app.stage >= prologue && r.app.stage < finishing && r.holder.state != asking
}

// hold is a turn of the goroutine.
func (r *rank) hold() {
	h := &r.holder
	if h.state == notHolding {
		h.n++
		h.state, h.left = asking, 1+r.w.rng.IntN(100)
		if r.w.breaks(holdNotAwaited) {
			h.state = inside
		}
		r.sayHold(oob.Hold)
		return
	}
	if h.left--; h.left == 0 {
		h.state = notHolding
		r.sayHold(oob.Release)
	}
}

func (r *rank) sayHold(kind oob.Kind) {
	r.w.send(oob.Msg{Kind: kind, From: int32(r.id), To: oob.Head, Incarnation: r.inc, A: r.holder.n, Data: []byte("main.step at main.go:88")})
}

// held takes the head's word.
func (r *rank) held(m *oob.Msg) {
	if h := &r.holder; m.Incarnation == r.inc && h.state == asking && m.A == h.n {
		r.w.seen.held++
		h.state = inside
	}
}

// holdAgain asks the head of a new life.
func (r *rank) holdAgain() {
	if r.holder.state == asking && !r.w.breaks(holdNotRepeated) {
		r.w.seen.heldAgain++
		r.sayHold(oob.Hold)
	}
}

// checkHolds looks at all ranks when one is captured: none is in its section.
func (w *world) checkHolds(r *rank) {
	for _, x := range w.ranks {
		if x.alive && !x.left && x.holder.state == inside && x.m.State() >= ckpt.Closing {
			w.violate("rank %d is captured when rank %d holds", r.id, x.id)
		}
	}
}
