package engine

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/rpi"
)

// Poison makes the context fail on this rank from now on, with ErrPoisoned and the cause. It tells
// the members (world ranks; this one is left out), even if it has failed here before. Receives not
// yet matched, and sends not yet taken by their receiver, end with that error. Transfers under way
// are finished. A communicator cannot be used after one of its collectives was given up. A cause
// that is the ErrPoisoned of another context is passed on unchanged.
func (e *Engine) Poison(ctx uint64, members []int, cause error) {
	e.enter()
	defer e.leave()
	code := poisonCode(cause)
	for _, rank := range members {
		if uint(rank) >= uint(e.size) || rank == e.rank {
			continue
		}
		if pr := &e.peers[rank]; pr.failed == nil && pr.mod != nil {
			e.respond(pr, reply{kind: rpi.Poison, ctx: ctx, off: code})
		}
	}
	e.poison(ctx, cause) // its refusals follow the reason for them
}

// Poisoned returns the error of a context that has failed, or nil.
func (e *Engine) Poisoned(ctx uint64) error {
	e.enter()
	defer e.leave()
	return e.poisoned[ctx]
}

// passedOn is the cause as seen by all calls, on any rank, except the call that it ended. Only that
// call's error is ErrDeadline.
func passedOn(cause error) error {
	if errors.Is(cause, ErrDeadline) {
		return &gaveUpError{cause.Error()}
	}
	return cause
}

type gaveUpError struct{ text string }

func (e *gaveUpError) Error() string { return e.text }
func (e *gaveUpError) Unwrap() error { return ErrGaveUp }

// FreeContext forgets a context. It drops the unexpected messages in it and ends its poisoning.
//
// If plans of the context are in progress, it is forgotten when they are over.
func (e *Engine) FreeContext(ctx uint64) {
	e.enter()
	defer e.leave()
	e.forgetContext(ctx)
}

func (e *Engine) forgetContext(ctx uint64) {
	for _, r := range e.waiting.of(ctx) {
		if r.phase == phaseComposed {
			r.plan.forget = true
			return
		}
	}
	delete(e.poisoned, ctx)
	e.judge()
	e.dropUnexpected(ctx, nil)
}

// poison fails the pending operations of the context.
func (e *Engine) poison(ctx uint64, cause error) {
	if e.poisoned[ctx] != nil {
		return
	}
	if e.poisoned == nil {
		e.poisoned = make(map[uint64]error)
	}
	err := passedOn(cause)
	if !errors.Is(err, ErrPoisoned) {
		err = fmt.Errorf("%w: %w", ErrPoisoned, err)
	}
	e.poisoned[ctx] = err
	e.judge()
	e.dropUnexpected(ctx, err)
	for _, r := range e.table.postedOf(ctx) {
		e.table.unpost(r)
		e.complete(r, err)
	}
	for _, r := range e.waiting.of(ctx) {
		switch r.phase {
		case phaseQueued:
			e.peers[r.peer].first.remove(r)
		case phaseAnnounced, phaseAck:
			if r.held != 0 {
				continue
			}
			if int(r.peer) == e.rank {
				e.dropLocal(r)
			}
		default:
			continue
		}
		e.complete(r, err)
	}
	e.table.queuesOf(ctx, func(q *queue) {
		for i := range q.probes {
			for q.probes[i].head != nil {
				e.endProbe(q.probes[i].head, err)
			}
		}
	})
	e.poisonTeam(ctx, err)
}

// refused ends a send whose message the peer has dropped.
func (e *Engine) refused(pr *peer, r *request) {
	err := e.poisoned[r.ctx]
	if err == nil {
		err = fmt.Errorf("%w: rank %d has given it up", ErrPoisoned, pr.rank)
	}
	e.complete(r, err)
}

// dropUnexpected drops messages that will not be received any more, and tells waiting senders. A
// send within this rank ends with err.
func (e *Engine) dropUnexpected(ctx uint64, err error) {
	for _, m := range e.table.unexpectedOf(ctx) {
		e.table.remove(m)
		e.drop(m, err)
	}
}

func (e *Engine) drop(m *message, err error) {
	pr := &e.peers[m.src]
	switch {
	case m.local != nil:
		e.complete(m.local, err)
	case m.h.Kind == rpi.RTS && pr.failed == nil:
		e.respond(pr, reply{kind: rpi.CTS, flags: rpi.FlagGone, req: m.h.Req})
	case m.h.Kind == rpi.EagerSync && pr.failed == nil:
		e.respond(pr, reply{kind: rpi.Ack, flags: rpi.FlagGone, req: m.h.Req})
	}
	e.messages.put(m)
}

// Codes of a Poison frame, in Off: why the communicator failed.
const (
	poisonOther uint64 = iota
	poisonDeadline
	poisonTruncate
	poisonType
	poisonPeer
	poisonAbort
)

var poisonCodes = []struct {
	code uint64
	err  error
}{
	{poisonDeadline, ErrDeadline},
	{poisonTruncate, ErrTruncate},
	{poisonType, ErrType},
	{poisonPeer, ErrPeerFailed},
	{poisonAbort, ErrAborted},
}

func poisonCode(cause error) uint64 {
	for _, c := range poisonCodes {
		if errors.Is(cause, c.err) {
			return c.code
		}
	}
	return poisonOther
}

func poisonCause(rank int, code uint64) error {
	for _, c := range poisonCodes {
		if c.code == code {
			return passedOn(fmt.Errorf("rank %d: %w", rank, c.err))
		}
	}
	return fmt.Errorf("at rank %d", rank)
}
