package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/backoff"
	"github.com/gorun-mpi/gorun/internal/rank/shmcoll"
)

// turn is a team's turn that a caller waits for.
type turn struct {
	t *Team
	w *waiter // nil: the caller leads
}

// Take takes the team's next turn. If a line was read with another tag or length than x says, the
// status is that line's, else it has what x says. Its Source is a place in the team. A caller that
// looks at the status need not look at the lines. After an error, or such a line, the team cannot
// be used any more: other members rely on each member going on only when it has seen the lines that
// it waited for. Errors: ErrPoisoned, ErrPeerFailed, ErrAborted, ErrDeadline.
func (e *Engine) Take(t *Team, x *Turn, v *View) (Status, error) {
	e.enter()
	st, err := e.takeTurn(t, x, v)
	e.leave()
	return st, err
}

func (e *Engine) takeTurn(t *Team, x *Turn, v *View) (Status, error) {
	if e.abort.Load() != nil || v.done() {
		return Status{}, e.broken(v)
	}
	if len(e.poisoned) != 0 && e.poisoned[t.Context()] != nil {
		return Status{}, e.poisoned[t.Context()]
	}
	if err := t.Begin(x); errors.Is(err, shmcoll.ErrLength) {
		return Status{}, fmt.Errorf("%w: %w", ErrTruncate, err)
	} else if err != nil {
		return Status{}, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	e.pace.Turn(t.Number())
	if e.dirty != 0 {
		e.flush()
	}
	if !t.Advance() {
		e.awaitTurn(t, v)
	}
	place, tag, bytes, err := t.End()
	return Status{Source: place, Tag: tag, Bytes: bytes}, err
}

// awaitTurn waits for the end of a turn.
func (e *Engine) awaitTurn(t *Team, v *View) {
	var s backoff.Spell
	e.flush()
	e.turns = append(e.turns, turn{t: t})
	if e.lead != leadCaller && e.blocked.head == nil {
		e.leadTurn(t, v, &s)
		if t.Done() {
			if e.blocked.head != nil || e.back.parked {
				e.handOver()
			}
			return
		}
	}
	if !t.Posted() && e.inWait.Load() {
		e.waiter.Wake() // the leader sleeps and has not asked for room
	}
	w := e.newWaiter()
	w.team = t
	if i := e.placeOf(t); i >= 0 { // else the engine is closed
		e.turns[i].w = w
	}
	if err := e.await(w, v, &s); err != nil {
		t.Fail(err)
		e.endTurn(t)
	}
	e.freeWaiting(w)
}

// leadTurn is leadAlone for a turn.
func (e *Engine) leadTurn(t *Team, v *View, s *backoff.Spell) {
	e.takeLead()
	e.turnAlone = t
	if e.pace.Shares() && e.yieldFor(t) {
		e.endTurn(t)
	}
	for !t.Done() && e.abort.Load() == nil && !v.done() {
		switch moved := e.poll(); {
		case e.woke:
			e.woke = false
			e.stepAside()
		case moved:
			if !t.Done() {
				*s = backoff.Spell{}
				if e.mu.contended() {
					e.stepAside()
				}
				if e.works.head != nil {
					e.turnAlone, e.lead = nil, leadNobody
					return
				}
			}
			continue
		case !e.rest(s):
			e.turnAlone, e.lead = nil, leadNobody
			return
		}
	}
	e.turnAlone, e.lead = nil, leadNobody
}

// yieldFor lets ranks whose lines the turn waits for have the CPU. It reports whether the turn is
// over.
func (e *Engine) yieldFor(t *Team) bool {
	for range backoff.YieldsFirst {
		if len(e.ready) != 0 || e.mu.contended() {
			return false
		}
		if t.LookOn() {
			return true
		}
		if !e.pace.YieldTurn(e.waiter) {
			return false
		}
		if t.Advance() {
			return true
		}
	}
	return false
}

// pollTurns goes on with the turns that callers wait for.
func (e *Engine) pollTurns() (moved bool) {
	if e.mu.gate() {
		return false
	}
	for i := 0; i < len(e.turns); {
		if t := e.turns[i].t; t.Advance() {
			e.endTurn(t)
			moved = true
			continue
		}
		i++
	}
	return moved
}

// armTurns allows this rank to sleep unless a line has come. Lines that come from now on wake it.
func (e *Engine) armTurns() bool {
	for _, w := range e.turns {
		if w.t.Arm() {
			return false
		}
	}
	return len(e.ready) == 0
}

// endTurn wakes the caller that waits for a turn.
func (e *Engine) endTurn(t *Team) {
	i := e.placeOf(t)
	if i < 0 {
		return
	}
	w := e.turns[i].w
	e.turns = slices.Delete(e.turns, i, i+1)
	if w != nil && !w.ready {
		e.satisfy(w)
	}
}

// placeOf returns the index in turns of the team's turn, -1 if no caller waits for it.
func (e *Engine) placeOf(t *Team) int {
	return slices.IndexFunc(e.turns, func(w turn) bool { return w.t == t })
}
