package rpi

import (
	"fmt"
	"strconv"
	"time"
)

// Pending describes every operation that was begun and not waited for, complete
// or not, every message held by a matched probe, and every caller that waits
// for something else.
func (e *Engine) Pending() []string {
	e.mu.lock()
	defer e.mu.unlock()
	return e.pending()
}

func (e *Engine) pending() []string {
	var all []string
	for _, r := range e.requests {
		if r.phase != phaseFree && !r.detached {
			all = append(all, r.String())
		}
	}
	for m := e.taken.head; m != nil; m = m.next {
		all = append(all, "message of a matched probe ("+where(m.src, m.h.Tag, m.h.Ctx, "source")+")")
	}
	for w := e.blocked.head; w != nil; w = w.next {
		if w.probe {
			all = append(all, w.String())
		}
	}
	for _, t := range e.turns {
		all = append(all, t.String())
	}
	return all
}

// Blocked describes what the longest waiting caller waits for, "" if nobody
// waits.
func (e *Engine) Blocked() string {
	e.mu.lock()
	defer e.mu.unlock()
	return e.blockedFor()
}

func (e *Engine) blockedFor() string {
	w := e.blocked.head
	switch {
	case e.alone != nil: // the others came later
		w = &waiter{r: e.alone}
	case e.turnAlone != nil:
		w = &waiter{team: e.turnAlone}
	case w == nil:
		return ""
	}
	text := w.String()
	if !w.since.IsZero() {
		text += " for " + time.Since(w.since).Round(time.Millisecond).String()
	}
	return text
}

func (r *request) String() string {
	name, side := "Send", "destination"
	if r.recv {
		name, side = "Recv", "source"
	}
	if r.sync {
		name = "Ssend"
	}
	if !r.blocking {
		name = "I" + string(name[0]|0x20) + name[1:]
	}
	text := fmt.Sprintf("%s(%s, %d bytes)", name, where(int(r.peer), r.tag, r.ctx, side), r.size)
	if r.phase == phaseDone {
		text += " complete, not waited for"
	}
	return text
}

func (w *waiter) String() string {
	switch {
	case w.r != nil && w.r.blocking:
		return w.r.String()
	case w.r != nil:
		return "Wait for " + w.r.String()
	case w.team != nil:
		return w.team.String()
	case w.probe:
		return "Probe(" + where(int(w.src), w.tag, w.ctx, "source") + ")"
	}
	return fmt.Sprintf("WaitAny of %d requests", w.any)
}

func where(peer int, tag int32, ctx uint64, side string) string {
	p, t := strconv.Itoa(peer), strconv.Itoa(int(tag))
	switch peer {
	case AnySource:
		p = "any"
	case ProcNull:
		p = "null"
	}
	if tag == AnyTag {
		t = "any"
	}
	return fmt.Sprintf("%s %s, tag %s, ctx %#x", side, p, t, ctx)
}
