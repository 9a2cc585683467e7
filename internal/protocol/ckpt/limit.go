package ckpt

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// The limit of a request belongs to its user. The user is answered when it is over, independent of
// the attempt that the request has joined or waits for, and of that attempt's limit. The attempt
// goes on if another request shares it.
//
//	request -- limit - AskMillis --> late ranks are asked what they do -- AskMillis --> the answer names one
//
// A request without a limit has that of the phases of its attempt, and PhaseMillis to wait for a release.

// limited reports whether the user has set a limit. Moves are ended by package joblife.
func (w *waiting) limited() bool { return w.Timeout > 0 && w.Move == nil }

// begins starts the limit of a request that was just made.
func (h *Head) begins(w *waiting) {
	if w.limited() {
		h.clock(w, w.Timeout-w.Spent-h.askWithin(w))
	}
}

// askWithin is the part of a limit in which late ranks may say what they do.
func (h *Head) askWithin(w *waiting) int64 { return min(h.cfg.AskMillis, (w.Timeout-w.Spent)/2) }

// clock starts the timer of a request.
func (h *Head) clock(w *waiting, millis int64) {
	h.timer++
	w.timer = h.timer
	h.act(HeadAction{Type: HactTimer, Timer: w.timer, Millis: millis})
}

// unwatch ends the limit of a request.
func (h *Head) unwatch(w *waiting) {
	if w.timer != 0 {
		h.act(HeadAction{Type: HactStopTimer, Timer: w.timer})
		w.timer = 0
	}
}

// impatient takes the timer of a request.
func (h *Head) impatient(timer uint64) {
	late := func(w waiting) bool { return w.timer == timer }
	if i := slices.IndexFunc(h.queue, late); i >= 0 {
		if w := &h.queue[i]; !h.askedFor(w) {
			why := h.whyQueued(w)
			w := *w
			h.queue = slices.Delete(h.queue, i, i+1)
			h.giveUp(w, why)
		}
		return
	}
	a := h.run
	if a == nil {
		return
	}
	if i := slices.IndexFunc(a.requests, late); i >= 0 && !h.askedFor(&a.requests[i]) {
		h.leave(i)
	}
}

// askedFor asks late ranks what they do, unless that was done for this request, or the request has
// no limit. It reports whether it asked.
func (h *Head) askedFor(w *waiting) bool {
	if !w.limited() || w.asked {
		return false
	}
	w.asked = true
	h.clock(w, h.askWithin(w))
	if a := h.run; a != nil && !a.asked && !a.noFolder() && a.phase < phaseCommitting {
		h.ask()
	}
	return true
}

// ask asks late ranks what they do.
func (h *Head) ask() {
	a := h.run
	a.asked, a.where = true, make(map[int]whereabouts)
	for rank := range h.cfg.Size {
		if !a.got[rank] {
			h.tell(rank, oob.Msg{Kind: oob.Ask})
		}
	}
}

// leave takes a request whose time is over out of the running attempt. The attempt ends if no other
// request shares it, or if it would end the job without a request for that. It goes on if it cannot
// be ended any more.
func (h *Head) leave(i int) {
	a, w := h.run, h.run.requests[i]
	why := h.whyLate(&w)
	a.requests = slices.Delete(a.requests, i, i+1)
	stop := slices.ContainsFunc(a.requests, func(w waiting) bool { return w.Stop })
	switch {
	case a.phase >= phaseCommitting:
		why += "; the snapshot may still come"
	case h.paused && a.phase >= phaseDraining:
		why = fmt.Sprintf("not taken within %v, as the job is suspended; the snapshot may still come when it is resumed", w.limit())
	case len(a.requests) == 0, a.stop && !stop && a.phase >= phaseCapturing:
		h.fail(why)
	default:
		a.stop = stop
	}
	h.giveUp(w, why)
}

func (w *waiting) limit() time.Duration { return time.Duration(w.Timeout) * time.Millisecond }

// whyLate says why the running attempt has not satisfied a request within its limit.
func (h *Head) whyLate(w *waiting) string {
	switch {
	case !w.limited():
		return h.heldText(w)
	case h.run.phase >= phaseCommitting:
		return fmt.Sprintf("the snapshot is not committed within %v", w.limit())
	}
	return h.late(w.limit())
}

// whyQueued says why a request waits.
func (h *Head) whyQueued(w *waiting) string {
	switch {
	case h.Held() != "" || !w.limited():
		return h.heldText(w)
	case h.run != nil:
		return "another checkpoint is being taken: " + h.whyLate(w)
	}
	return fmt.Sprintf("not all ranks are up within %v", w.limit())
}

func (h *Head) giveUp(w waiting, why string) {
	w.timer = 0
	h.done(w, Done{Err: why})
}
