package engine

import (
	"fmt"
	"time"
)

// A rank in Finalize sends nothing any more, and begins no receive. A rank that waits for it for
// some time asks whether it is there (package mpi, watch); its answer is a message, and so comes
// behind all that it has sent. A receive that is not matched by then never will be.

// Awaited are the ranks that callers have waited for since some time.
type Awaited struct {
	Peers    []int    // that they name
	Contexts []uint64 // in which they wait for a message from any source
}

// Awaits returns the ranks that callers have waited for at least so long, in the contexts that
// count.
func (e *Engine) Awaits(since time.Duration, counts func(ctx uint64) bool) (a Awaited) {
	e.mu.lock()
	defer e.mu.unlock()
	peers, contexts := map[int]bool{}, map[uint64]bool{}
	add := func(peer int, ctx uint64) {
		switch {
		case !counts(ctx):
		case peer >= 0 && !peers[peer]:
			peers[peer] = true
			a.Peers = append(a.Peers, peer)
		case peer == AnySource && !contexts[ctx]:
			contexts[ctx] = true
			a.Contexts = append(a.Contexts, ctx)
		}
	}
	for w := e.blocked.head; w != nil; w = w.next {
		switch {
		case w.since.IsZero() || time.Since(w.since) < since:
		case w.probe:
			add(int(w.src), w.ctx)
		case w.r != nil:
			e.awaitedBy(w.r, add)
		case w.any > 0:
			for _, r := range e.requests {
				if r.w == w {
					e.awaitedBy(r, add)
				}
			}
		}
	}
	return a
}

// awaitedBy adds the ranks that an operation waits for.
func (e *Engine) awaitedBy(r *request, add func(peer int, ctx uint64)) {
	switch r.phase {
	case phaseQueued, phaseAnnounced, phaseAck, phasePosted:
		add(int(r.peer), r.ctx)
	case phaseComposed:
		p := r.plan
		if uint(p.at) >= uint(len(p.Rounds)) {
			return
		}
		for i := range p.Rounds[p.at].Parts {
			if m := &p.Rounds[p.at].Parts[i]; m.r != nil && !m.over {
				e.awaitedBy(m.r, add)
			}
		}
	}
}

// Finalized ends, with ErrFinalized, operations that wait for a rank in Finalize, in the contexts
// that count. any says that waits for any source end, too: all possible senders are in Finalize.
func (e *Engine) Finalized(peer int, any bool, counts func(ctx uint64) bool) {
	e.enter()
	defer e.leave()
	err := fmt.Errorf("%w: rank %d of the world sends nothing any more, and begins no receive", ErrFinalized, peer)
	fits := func(of int, ctx uint64) bool { return (of == peer || any && of == AnySource) && counts(ctx) }
	for _, r := range e.requests {
		if r.phase == phaseFree || r.phase == phaseDone || !fits(int(r.peer), r.ctx) {
			continue
		}
		switch r.phase {
		case phasePosted:
			e.table.unpost(r)
		case phaseQueued:
			e.peers[r.peer].first.remove(r)
		case phaseAnnounced, phaseAck:
			if r.held != 0 || int(r.peer) == e.rank {
				continue
			}
		default:
			continue
		}
		e.complete(r, err)
	}
	for w := e.blocked.head; w != nil; {
		next := w.next
		if w.probe && !w.ready && fits(int(w.src), w.ctx) {
			e.endProbe(w, err)
		}
		w = next
	}
}

// lastPolls bounds the polls by which Unreceived lets messages arrive.
const lastPolls = 1000

// Unreceived tells how many messages have arrived, in the contexts that count, and were not received, and describes the first.
func (e *Engine) Unreceived(most int, counts func(ctx uint64) bool) (n int, first []string) {
	for polls := 0; polls < lastPolls && e.Progress(); polls++ {
	}
	e.mu.lock()
	defer e.mu.unlock()
	for _, m := range e.table.unexpected() {
		if !counts(m.h.Ctx) {
			continue
		}
		if n++; n <= most {
			first = append(first, fmt.Sprintf("from rank %d to rank %d, tag %d, %d bytes, %s", m.src, e.rank, m.h.Tag, m.h.Len, e.on(m.h.Ctx)))
		}
	}
	return n, first
}
