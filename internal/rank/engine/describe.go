package engine

import (
	"fmt"
	"math"
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
		if r.phase != phaseFree && r.after&afterFree == 0 && !(r.w != nil && r.w.plan != nil) && !(r.phase == phaseDone && r.after&afterLeft != 0) {
			all = append(all, e.describe(r))
		}
	}
	all = append(all, e.held()...)
	for w := e.blocked.head; w != nil; w = w.next {
		if w.probe {
			all = append(all, e.describeWait(w))
		}
	}
	for _, w := range e.turns {
		all = append(all, w.t.String())
	}
	return all
}

// Left describes operations that were begun and not ended, and for which no caller waits: requests,
// complete or not, except those that were left (Leave), and messages of matched probes.
func (e *Engine) Left() []string {
	e.mu.lock()
	defer e.mu.unlock()
	var all []string
	for _, r := range e.requests {
		if r.phase != phaseFree && r.after&(afterFree|afterLeft) == 0 && !r.blocking && r.w == nil && r != e.alone {
			all = append(all, e.describe(r))
		}
	}
	return append(all, e.held()...)
}

// held describes the messages of matched probes that were not received.
func (e *Engine) held() []string {
	var all []string
	for m := e.taken.head; m != nil; m = m.next {
		all = append(all, "message of a matched probe ("+e.where(m.src, m.h.Tag, m.h.Ctx, "source")+")")
	}
	return all
}

// Blocked describes what the longest waiting caller waits for, "" if no caller
// waits.
func (e *Engine) Blocked() string {
	e.mu.lock()
	defer e.mu.unlock()
	return e.blockedFor()
}

func (e *Engine) blockedFor() string {
	all := e.waits(1)
	if len(all) == 0 {
		return ""
	}
	text := all[0].What
	if all[0].For > 0 {
		text += " for " + all[0].For.Round(time.Millisecond).String()
	}
	return text
}

// Wait is what a caller waits for.
type Wait struct {
	Kind string        // Recv, Send, Wait, WaitAny, Probe or Take
	What string        // e.g. Recv(source 0, tag 1, on world, 8 bytes)
	For  time.Duration // since it first slept, 0 if it has not yet
	Ends Ends
}

// Waits tells what all callers wait for, the longest wait first.
func (e *Engine) Waits() []Wait {
	e.mu.lock()
	defer e.mu.unlock()
	return e.waits(math.MaxInt)
}

// waits is Waits for at most this many.
func (e *Engine) waits(most int) (all []Wait) {
	add := func(w *waiter) {
		one := Wait{Kind: w.kind(), What: e.describeWait(w), Ends: e.ends(w)}
		if !w.since.IsZero() {
			one.For = time.Since(w.since)
		}
		all = append(all, one)
	}
	switch {
	case e.alone != nil: // the others came later
		add(&waiter{r: e.alone})
	case e.turnAlone != nil:
		add(&waiter{team: e.turnAlone})
	}
	for w := e.blocked.head; w != nil && len(all) < most; w = w.next {
		add(w)
	}
	return all
}

// kind is the method that a caller waits in, as far as it is known. Methods that make several
// messages wait as Recv and Send do.
func (w *waiter) kind() string {
	switch {
	case w.r != nil && !w.r.blocking:
		return "Wait"
	case w.r != nil && w.r.recv:
		return "Recv"
	case w.r != nil:
		return "Send"
	case w.team != nil:
		return "Take"
	case w.probe:
		return "Probe"
	}
	return "WaitAny"
}

// describe says what a request is: its call, with whom, and how much.
func (e *Engine) describe(r *request) string {
	done := ""
	if r.phase == phaseDone {
		done = " complete, not waited for"
	}
	switch {
	case r.plan != nil:
		return r.plan.What.String() + done
	case r.phase == phasePledged:
		return "generalised request"
	}
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
	return fmt.Sprintf("%s(%s, %d bytes)%s", name, e.where(int(r.peer), r.tag, r.ctx, side), r.size, done)
}

// describeWait says what a caller waits for.
func (e *Engine) describeWait(w *waiter) string {
	switch {
	case w.r != nil && w.r.blocking:
		return e.describe(w.r)
	case w.r != nil:
		return "Wait for " + e.describe(w.r)
	case w.team != nil:
		return w.team.String()
	case w.probe:
		return "Probe(" + e.where(int(w.src), w.tag, w.ctx, "source") + ")"
	}
	return fmt.Sprintf("WaitAny of %d requests", w.any)
}

// where says with whom a message is exchanged, and on which communicator.
func (e *Engine) where(peer int, tag int32, ctx uint64, side string) string {
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
	return fmt.Sprintf("%s %s, tag %s, %s", side, p, t, e.on(ctx))
}

// on names the communicator of a context. A context without a name is shown as a number.
func (e *Engine) on(ctx uint64) string {
	if e.names != nil {
		if path, ok := e.names(ctx); ok {
			return "on " + path
		}
	}
	return fmt.Sprintf("ctx %#x", ctx)
}
