package rpi

import (
	"errors"
	"fmt"
)

// Poison makes the context fail here, now and for ever, with ErrPoisoned and
// the cause, and tells the members (world ranks; this one is left out). Receives
// not yet matched and sends not yet taken by their receiver end with that error;
// transfers under way are finished. (Collectives that were given up leave their
// communicator in no state to go on.)
func (e *Engine) Poison(ctx uint64, members []int, cause error) {
	e.enter()
	defer e.leave()
	if e.poisoned[ctx] != nil {
		return
	}
	code := poisonCode(cause)
	for _, rank := range members {
		if uint(rank) >= uint(e.size) || rank == e.rank {
			continue
		}
		if pr := &e.peers[rank]; pr.failed == nil && pr.mod != nil {
			e.respond(pr, reply{kind: Poison, ctx: ctx, off: code})
		}
	}
	e.poison(ctx, cause) // its refusals follow the reason for them
}

// FreeContext forgets a context: what is unexpected in it is dropped, and it is
// no longer poisoned.
func (e *Engine) FreeContext(ctx uint64) {
	e.enter()
	defer e.leave()
	delete(e.poisoned, ctx)
	e.judge()
	e.dropUnexpected(ctx, nil)
}

// poison fails what the context has pending.
func (e *Engine) poison(ctx uint64, cause error) {
	if e.poisoned[ctx] != nil {
		return
	}
	if e.poisoned == nil {
		e.poisoned = make(map[uint64]error)
	}
	err := fmt.Errorf("%w: %w", ErrPoisoned, cause)
	e.poisoned[ctx] = err
	e.judge()
	e.dropUnexpected(ctx, err)
	for _, r := range e.requests {
		if r.ctx != ctx {
			continue
		}
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
		case phasePosted:
			e.table.unpost(r)
		default:
			continue
		}
		e.complete(r, err)
	}
	for w := e.blocked.head; w != nil; {
		next := w.next
		if w.probe && w.ctx == ctx {
			w.err = err
			e.satisfy(w)
		}
		w = next
	}
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

// dropUnexpected throws away what nobody will receive, and tells senders that
// wait; one within this rank ends with err.
func (e *Engine) dropUnexpected(ctx uint64, err error) {
	for _, m := range e.table.unexpected() {
		if m.h.Ctx == ctx {
			e.table.remove(m)
			e.drop(m, err)
		}
	}
}

func (e *Engine) drop(m *message, err error) {
	pr := &e.peers[m.src]
	switch {
	case m.local != nil:
		e.complete(m.local, err)
	case m.h.Kind == RTS && pr.failed == nil:
		e.respond(pr, reply{kind: CTS, flags: FlagGone, req: m.h.Req})
	case m.h.Kind == EagerSync && pr.failed == nil:
		e.respond(pr, reply{kind: Ack, flags: FlagGone, req: m.h.Req})
	}
	e.messages.put(m)
}

var poisonCodes = []struct {
	code uint64
	err  error
}{
	{PoisonDeadline, ErrDeadline},
	{PoisonTruncate, ErrTruncate},
	{PoisonType, ErrType},
	{PoisonPeer, ErrPeerFailed},
	{PoisonAbort, ErrAborted},
}

func poisonCode(cause error) uint64 {
	for _, c := range poisonCodes {
		if errors.Is(cause, c.err) {
			return c.code
		}
	}
	return PoisonOther
}

func poisonCause(rank int, code uint64) error {
	for _, c := range poisonCodes {
		if c.code == code {
			return fmt.Errorf("rank %d: %w", rank, c.err)
		}
	}
	return fmt.Errorf("at rank %d", rank)
}
