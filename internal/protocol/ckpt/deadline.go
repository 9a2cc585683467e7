package ckpt

import (
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

func (h *Head) startTimer(millis int64) {
	if h.run.left = millis; h.paused {
		return
	}
	h.timer++
	h.run.timer = h.timer
	h.act(HeadAction{Type: HactTimer, Timer: h.timer, Millis: millis})
}

func (h *Head) stopTimer() {
	h.run.left = 0
	if h.run.timer != 0 {
		h.act(HeadAction{Type: HactStopTimer, Timer: h.run.timer})
		h.run.timer = 0
	}
}

// pause stops the deadline of the running attempt while the ranks are suspended. Afterwards it begins again.
func (h *Head) pause(on bool) {
	a := h.run
	switch h.paused = on; {
	case a == nil || a.left == 0:
	case on:
		left := a.left
		h.stopTimer()
		a.left = left
	default:
		h.startTimer(a.left)
	}
}

// timeout first asks late ranks what they do. The second time it ends the attempt and names the
// rank to blame.
func (h *Head) timeout() {
	a := h.run
	a.timer, a.left = 0, 0
	if a.phase == phaseAhead && a.ahead.seq > 0 {
		h.withoutAhead(fmt.Sprintf("for %v nothing has come of it", time.Duration(a.millis)*time.Millisecond))
		return
	}
	if a.asked || a.noFolder() {
		if a.phase < phaseAhead {
			h.pointless(h.lateText())
		} else {
			h.fail(h.lateText())
		}
		return
	}
	h.ask()
	h.startTimer(h.cfg.AskMillis)
}

// lateText names the rank that the others most likely wait for. That is a rank that does not even answer, or
// else the rank that is least far. If there are several, it is one that does not wait for others itself, and of
// these the lowest.
func (h *Head) lateText() string { return h.late(time.Duration(h.limit()) * time.Millisecond) }

// late is lateText for a limit.
func (h *Head) late(limit time.Duration) string {
	a := h.run
	if a.noFolder() {
		return fmt.Sprintf("no folder for the snapshot within %v", limit)
	}
	culprit, late, silent := -1, 0, false
	for rank, got := range a.got {
		if got {
			continue
		}
		late++
		w, answered := a.where[rank]
		switch {
		case culprit < 0, !answered && !silent, answered && !silent && w.before(a.where[culprit]):
			culprit, silent = rank, !answered
		}
	}
	s := fmt.Sprintf("rank %d %s within %v", culprit, a.missed(), limit)
	if silent {
		s += ": it does not answer"
	} else {
		s += ": it " + a.where[culprit].text
	}
	if late > 1 {
		s += fmt.Sprintf(" (%d ranks are late)", late)
	}
	return s
}

// noFolder reports whether it is the storage that is late.
func (a *attempt) noFolder() bool {
	return a.phase == phaseAhead || a.phase == phasePlace || a.phase == phaseFolder
}

// heard reports whether all late ranks have answered.
func (a *attempt) heard() bool {
	for rank, got := range a.got {
		if _, answered := a.where[rank]; !got && !answered {
			return false
		}
	}
	return true
}

// before reports whether a rank at w is more likely to hold up a rank at o than the other way round.
func (w whereabouts) before(o whereabouts) bool {
	return w.state < o.state || w.state == o.state && o.waits && !w.waits
}

func (a *attempt) missed() string {
	switch a.phase {
	case phasePoints:
		return "has not said how many Points it has passed"
	case phaseTarget:
		return fmt.Sprintf("has not reached Point %d", a.point)
	case phaseDraining:
		return "has not got ready"
	case phaseCapturing:
		if a.mode == oob.ModeNative {
			return "has not been copied by its agent"
		}
		return "has not copied its state"
	}
	return "has written nothing more of its image"
}

// progress tells the waiting clients how far the attempt is.
func (h *Head) progress() {
	a := h.run
	info := ProgressInfo{Ranks: h.cfg.Size - a.n2go, Size: h.cfg.Size, Written: a.sum, Total: a.total}
	switch a.phase {
	case phasePoints, phaseTarget:
		info.Phase = "points"
	case phaseAhead:
		info.Phase = "ahead"
	case phasePlace:
		info.Phase = "closing"
	case phaseDraining:
		info.Phase = "draining"
		if info.Ranks == 0 {
			info.Phase = "closing"
		}
	case phaseFolder, phaseCapturing:
		info.Phase = "capturing"
	case phaseWriting:
		info.Phase = "writing"
	case phaseCommitting:
		info.Phase = "committing"
	case phaseMoved:
		info.Phase = "moving"
	}
	h.act(HeadAction{Type: HactProgress, Info: info})
}
