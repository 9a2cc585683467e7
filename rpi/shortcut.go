package rpi

// The shortcut of a receive: who waits for one short message, and nobody for anything
// else, takes it from the module itself, without a request, the match table and the
// upcalls of the module. The lock is held all the time, so nothing changes meanwhile
// but what other ranks do. What is not as simple as that, or takes longer, goes on as
// every receive does, as if there had been no attempt.

// shortTurns is how many receives may pass without a poll.
const shortTurns = 64

// recvShort receives a message, if it can, and returns its length, else a negative
// number.
func (e *Engine) recvShort(src int, ctx uint64, tag int32, t *Type, p []byte, v *View) int {
	if uint(src) >= uint(e.plain) || tag < 0 || t == nil || !e.unburdened() || v != nil && v.fired.Load() {
		return TakeOther
	}
	pr := &e.peers[src]
	if pr.shortcut == nil || (e.polls+1)%shortTurns == 0 { // others may have sent something
		return TakeOther
	}
	e.polls++
	if e.flushes++; e.dirty != 0 {
		e.flushDirty()
	}
	n := pr.shortcut.TakeShort(src, ctx, tag, t.ID, p)
	for looks := 1; n == TakeNone && looks < e.pace.short && !e.mu.contended(); looks++ {
		n = pr.shortcut.TakeShort(src, ctx, tag, t.ID, p)
	}
	if Checkpointing && n >= 0 {
		e.received[src] += HeaderSize + uint64(n)
	}
	return n
}

// unburdened reports whether nobody waits for anything, nothing has come that nobody
// waits for, and nothing is left to be done.
func (e *Engine) unburdened() bool {
	return e.table.idle() && e.table.kept == 0 && e.lead == leadNobody && e.blocked.head == nil &&
		len(e.turns)+len(e.ready)+e.downs == 0
}
