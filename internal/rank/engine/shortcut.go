package engine

import (
	"github.com/gorun-mpi/gorun/internal/rank/backoff"
	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// The shortcut of a receive. A caller that waits for one short message takes it from the module
// itself, if no other caller waits. It needs no request, no match table and no upcalls of the
// module. The lock is held all the time, so meanwhile only other ranks act. A receive that is not
// as simple, or that takes longer, goes on as every receive does, as if there had been no
// attempt.

// recvShort receives a message, if it can, and returns its length. Otherwise it returns a negative
// number.
func (e *Engine) recvShort(src int, ctx uint64, tag int32, t *Type, p []byte, v *View) int {
	if uint(src) >= uint(e.plain) || tag < 0 || t == nil || !e.unburdened() || v != nil && v.fired.Load() {
		return shared.TakeOther
	}
	pr := &e.peers[src]
	if pr.shortcut == nil || (e.polls+1)%backoff.PollEvery == 0 { // others may have sent something
		return shared.TakeOther
	}
	e.polls++
	if e.flushes++; e.dirty != 0 {
		e.flushDirty()
	}
	n := pr.shortcut.TakeShort(src, ctx, tag, t.ID, p)
	for looks := 1; n == shared.TakeNone && looks < e.pace.Looks && !e.mu.contended(); looks++ {
		n = pr.shortcut.TakeShort(src, ctx, tag, t.ID, p)
	}
	if n >= 0 {
		e.arrived(src, rpi.HeaderSize+uint64(n))
	}
	return n
}

// unburdened reports whether no caller waits, no unexpected message is queued, and no work is
// left.
func (e *Engine) unburdened() bool {
	return e.table.idle() && e.table.kept == 0 && e.lead == leadNobody && e.blocked.head == nil &&
		len(e.turns)+len(e.ready)+e.due == 0
}
