package devices

import (
	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/sessions"
)

// What a user may want.
var swaps = []string{offload.SwapOut, offload.SwapIn, offload.SwapMove}

// swap does what a user wants with one device, as internal/job/agent does.
func (s *station) swap(q swapping) {
	o := s.of(q.id)
	if o == nil || !s.m.Has(o.id) || o.user != nil || (q.op == offload.SwapIn) != (o.stored != nil && o.cmd == nil) {
		return // it is not meant
	}
	o.user = &q
	if q.op == offload.SwapIn {
		o.device = q.device
		if s.w.breaks(comesMeanwhile) && s.m.Held() {
			o.launch(o.stored)
			o.command(offload.Order{Op: offload.OrderResume}, nil, 0)
			return
		}
		s.step(sessions.Event{Type: sessions.EvSwapIn, ID: o.id})
		return
	}
	s.step(sessions.Event{Type: sessions.EvSwapOut, ID: o.id})
}

// swapped is the outcome. A migration goes on with it.
func (o *offloader) swapped(why string) {
	q := o.user
	if q == nil {
		return
	}
	o.late = nil
	o.isOut = why == "" && o.cmd == nil
	in := q.op == offload.SwapIn || q.in
	o.s.w.say("rank %d: %s of device %d: %q", o.s.r.n, q.op, o.id, why)
	switch {
	case in && why == "":
		o.stored, o.user = nil, nil
		o.s.w.seen.Swapped++
	case q.op == offload.SwapMove && !in && why == "":
		was := o.device
		q.in, o.device, q.device = true, q.device, was
		o.leaving = false
		o.s.step(sessions.Event{Type: sessions.EvSwapIn, ID: o.id})
	case q.op == offload.SwapMove && in && !q.back && o.stored != nil && o.s.m.Has(o.id):
		q.back, o.device = true, q.device
		o.s.step(sessions.Event{Type: sessions.EvSwapIn, ID: o.id})
	default:
		o.user, o.leaving = nil, false
		if why == "" && o.s.w.breaks(swapTold) {
			o.s.step(sessions.Event{Type: sessions.EvDied, ID: o.id, Due: true, Err: "swapped out"})
		}
	}
}

// limit is the end of a user's patience with a process that pauses: it is asked what it waits for.
func (o *offloader) limit() {
	o.late = func(what string) {
		o.late = nil
		o.s.step(sessions.Event{Type: sessions.EvGiveUp, ID: o.id, Err: what})
	}
	o.send(order{Order: offload.Order{Op: offload.OrderLate, Attempt: o.attempt}})
}
