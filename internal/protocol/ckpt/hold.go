package ckpt

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// A hold keeps checkpoints off. A rank holds for a section of its program, a user by gorun hold and gorun
// suspend.
//
//	rank                      head
//	 Hold n ----------------->       an attempt that has closed no gate is put off
//	        <----------------- Held  when all gates are open: only now cr.Hold returns
//	  (the section)                  no attempt begins; requests wait, and are told who holds
//	 Release n -------------->       the next attempt begins
//
// So no image shows a rank inside its section. A rank that was imaged while it waited for Held asks
// again after a restart, as it does for Finalize. A restart begins without holds: no rank was
// inside a section. The hold of a rank ends when it dies or enters Finalize.

// Holder is a user's way to hold.
type Holder uint8

// The ways.
const (
	ByCommand   Holder = iota // gorun hold
	BySuspended               // gorun suspend: the ranks are stopped
	holders
)

// hold is the hold of one rank.
type hold struct {
	n       uint64 // counts the rank's holds; 0: it holds nothing
	where   string // the place in the program
	granted bool
}

// order is a user's hold.
type order struct {
	text    string // who holds, "" if nobody does
	granted bool
	ids     []uint64 // of the events that are to be answered
}

// waiting is a request that no image has been taken for yet.
type waiting struct {
	Request
	timer uint64 // its limit, see begins; or the limit of its wait for a release; 0: it does not wait, or without limit
	asked bool   // late ranks were asked, for this request, what they do
	who   string // the holder that it has waited for

	direct bool // a move without images that go ahead: it was put off
}

// holding takes a rank's Hold or Release.
func (h *Head) holding(rank int, m *oob.Msg) {
	switch x := &h.holds[rank]; {
	case m.Kind == oob.Release:
		if x.n == m.A {
			*x = hold{}
		}
	case m.A != 0:
		*x = hold{n: m.A, where: string(m.Data)}
		h.putOff()
	}
}

// ordered takes a user's hold or its end.
func (h *Head) ordered(ev *HeadEvent) {
	if ev.Holder >= holders {
		return
	}
	o := &h.orders[ev.Holder]
	if ev.Type == HvHold {
		if o.text == "" {
			o.text = ev.Err
		}
		o.granted = false // it is, if nothing is in the way
		o.ids = append(o.ids, ev.Request.ID)
		h.putOff()
		return
	}
	for _, id := range o.ids {
		h.act(HeadAction{Type: HactHeld, Holder: ev.Holder, Done: Done{ID: id, Err: "it was released meanwhile"}})
	}
	*o = order{}
}

// Held names the holder that keeps checkpoints off, "" if there is none.
func (h *Head) Held() string {
	for _, o := range h.orders {
		if o.text != "" {
			return o.text
		}
	}
	first := slices.IndexFunc(h.holds, func(x hold) bool { return x.n != 0 })
	if first < 0 {
		return ""
	}
	text := fmt.Sprintf("rank %d in %s", first, h.holds[first].where)
	more := 0
	for _, x := range h.holds[first+1:] {
		if x.n != 0 {
			more++
		}
	}
	switch {
	case more == 1:
		text += ", and another rank"
	case more > 1:
		text += fmt.Sprintf(", and %d other ranks", more)
	}
	return text
}

// shut reports whether gates are closed, or about to close: it is too late to put the attempt off, and too
// early to let a rank into its section.
func (h *Head) shut() bool {
	a := h.run
	return a != nil && a.phase >= phaseDraining && (a.phase < phaseWriting || a.stop || a.move != nil)
}

// putOff ends an attempt that has closed no gate yet. Its requests wait again.
func (h *Head) putOff() {
	a := h.run
	if a == nil || a.phase >= phaseDraining {
		return
	}
	h.drop("put off: checkpoints are held off by " + h.Held())
	for i := range a.requests { // repeated holds would postpone a move without end
		a.requests[i].direct = a.move != nil
	}
	h.queue = append(a.requests, h.queue...)
	h.tellHeld()
}

func (h *Head) tellHeld() {
	h.act(HeadAction{Type: HactProgress, Info: ProgressInfo{Phase: "held", Size: h.cfg.Size}})
}

// grant lets all waiting holders into their sections.
func (h *Head) grant() {
	if h.shut() {
		return
	}
	for rank := range h.holds {
		if x := &h.holds[rank]; x.n != 0 && !x.granted && !h.last && h.up {
			x.granted = true
			h.tell(rank, oob.Msg{Kind: oob.Held, A: x.n})
		}
	}
	for i := range h.orders {
		o := &h.orders[i]
		for _, id := range o.ids {
			h.act(HeadAction{Type: HactHeld, Holder: Holder(i), Done: Done{ID: id}})
		}
		o.granted, o.ids = o.text != "", nil
	}
}

// watch limits the time for which requests wait for a release. It goes on while a request is put off again and
// again.
func (h *Head) watch() {
	who := h.Held()
	if who == "" {
		return
	}
	for i := range h.queue {
		w := &h.queue[i]
		if w.who = who; w.timer == 0 && !w.Patient {
			h.clock(w, h.patience(w))
		}
	}
}

func (h *Head) patience(w *waiting) int64 {
	if w.Timeout > 0 {
		return w.Timeout
	}
	return h.cfg.PhaseMillis
}

// heldText says how long a request has waited for a release.
func (h *Head) heldText(w *waiting) string {
	return fmt.Sprintf("checkpoints have been held off for %v, by %s", time.Duration(h.patience(w))*time.Millisecond, w.who)
}
