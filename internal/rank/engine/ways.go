package engine

import "github.com/gorun-mpi/gorun/rpi"

// The ways of a message. Send and Isend ask them in this order. Each of the first three either takes
// the message, and the call is over without a request, or refuses it and has done nothing.
//
//	add      the message is like the one before, which the module has left open for
//	         more (shared.Open): it is added to that
//	short    the module's shortcut takes it, without a header (shared.Shortcut)
//	whole    the module takes it as one Eager frame, which it copies
//	request  refuses nothing: long and synchronous messages, those that queue behind
//	         others, those for this rank itself or for nobody, and errors
//
// Send and Isend themselves begin with what most messages need of add and short, in place (see
// judge). The rest is in sendAtOnce, send and startSend.

// smallMax is the longest message in bytes that is batched. The first message to a peer since this
// rank last waited goes at once. Later small ones are handed to the module with more set, which may
// hold them back. They leave when the module's buffer is full, with the next larger frame, and
// whenever this rank waits (any Wait, Recv, Test or Probe, even if satisfied at once). The next tick
// of the background goroutine is the latest time: see backoff.Ticks.
const smallMax = 4 << 10

// shortMax is the longest message in bytes that is offered to a module's shortcut. 64 and 96 B take
// 0.6 to 0.7 of the time by it, 1 KB 0.9 to 0.95, 4 KB 0.6 to 0.75, 8 KB 0.93 to 0.97 (EPYC 9004,
// between CPUs with a cache in common).
const shortMax = 8 << 10

// sendAtOnce asks the ways that need no request.
func (e *Engine) sendAtOnce(dst int, ctx uint64, tag int32, t *Type, p []byte) bool {
	if uint(dst) >= uint(e.plain) || tag < 0 {
		return false
	}
	pr := &e.peers[dst]
	if o := pr.open; o.Like(ctx, tag, t.id(), len(p)) { // add
		o.Add(p)
	} else if len(p) > pr.short || pr.stuck() {
		return false
	} else if more := e.batch(pr, len(p)); pr.shortcut != nil && pr.shortcut.SendShort(dst, ctx, tag, t.id(), p, more) { // short
	} else if !e.sendWhole(pr, ctx, tag, t, p, more) { // whole
		return false
	}
	e.count(dst, len(p))
	return true
}

// sendWhole is the way whole.
func (e *Engine) sendWhole(pr *peer, ctx uint64, tag int32, t *Type, p []byte, more bool) bool {
	e.fill(rpi.Eager, ctx, tag, t, len(p))
	// Without a Ref the module cannot hold the payload: it copies or refuses it.
	pr.blocked = pr.mod.Send(pr.rank, &e.out, p, 0, more) == rpi.Full
	return !pr.blocked
}

// batch tells whether a message of n bytes may be held back; see smallMax.
func (e *Engine) batch(pr *peer, n int) bool {
	if n > smallMax {
		return false
	}
	if pr.flushed != e.flushes {
		pr.flushed = e.flushes
		return false
	}
	if e.dirty&pr.bit == 0 {
		e.dirty |= pr.bit
		e.wakeForBatch()
	}
	return true
}

// count counts a message of n bytes.
func (e *Engine) count(dst, n int) {
	if Checkpointing {
		e.sent[dst] += rpi.HeaderSize + uint64(n)
	}
}
