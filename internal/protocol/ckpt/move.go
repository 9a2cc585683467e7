package ckpt

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// A move takes some ranks to other nodes while the others stay in their processes. Its attempt is a
// native one up to Ready of all. Then only the ranks that move are captured, and no gate opens:
//
//	ahead       full images go ahead, see ahead.go
//	place       somewhere to write is there
//	draining    Close to all   -> Ready of all
//	capturing   Capture (Hold) -> Captured of those that move
//	writing                    -> Written of those that move
//	moved       until the driver says that it has failed, or takes the Successor
//
// With the Successor all ranks begin another incarnation: those that have moved in new processes, the others where
// they stand. An attempt that fails before is reverted as any other: held ranks go on where they are.

// moves reports whether a rank takes part in the captures of the attempt.
func (a *attempt) moves(rank int) bool { return a.move == nil || a.move[rank] }

// movers is how many ranks do.
func (a *attempt) movers(size int) int {
	if a.move == nil {
		return size
	}
	return len(a.move)
}

// moving makes a set of the ranks of a request, nil if it does not ask for a move.
func moving(r Request) map[int]bool {
	if len(r.Move) == 0 {
		return nil
	}
	set := map[int]bool{}
	for _, rank := range r.Move {
		set[rank] = true
	}
	return set
}

// exempt counts ranks as having finished a phase that is not theirs.
func (a *attempt) exempt() {
	for rank := range a.got {
		if !a.moves(rank) && !a.got[rank] {
			a.got[rank] = true
			a.n2go--
		}
	}
}

// cannotMove says why a request for a move cannot be fulfilled.
func (h *Head) cannotMove(r Request) string {
	for _, rank := range r.Move {
		if rank < 0 || rank >= h.cfg.Size {
			return fmt.Sprintf("there is no rank %d, they are 0 to %d", rank, h.cfg.Size-1)
		}
	}
	if len(r.Move) > 0 && (r.Mode != oob.ModeNative || r.Stop) {
		return "a move takes whole processes, and does not end the job"
	}
	return ""
}

// moved tells the driver that the images of all ranks that move are written.
func (h *Head) moved() {
	a := h.run
	h.act(HeadAction{Type: HactMoved, Images: a.images, Seq: a.seq, Done: Done{ID: a.requests[0].ID, Base: a.base, Notes: a.notes}})
}

// moveFailed gives up a move at any time before its Successor, even while it waits for its turn.
func (h *Head) moveFailed(why string) {
	if i := slices.IndexFunc(h.queue, func(w waiting) bool { return len(w.Move) > 0 }); i >= 0 {
		h.done(h.queue[i], Done{Err: why})
		h.queue = slices.Delete(h.queue, i, i+1)
		return
	}
	if a := h.run; a != nil && a.move != nil {
		h.fail(why)
	}
}

// Successor returns the machine of the incarnation that begins with a move. Waiting requests and
// holds of users go over to it, with their running timers. The ranks repeat their holds, and that
// they are in Finalize. The next native images are full, because ranks that moved have none to
// build on. This machine must not be used any more.
func (h *Head) Successor(incarnation uint64) *Head {
	cfg := h.cfg
	cfg.Incarnation = incarnation
	s := NewHead(cfg)
	s.queue, s.orders, s.timer, s.attempt = h.queue, h.orders, h.timer, h.attempt
	s.end, s.paused = h.end, h.paused
	h.queue, h.run, h.end = nil, nil, "the ranks have moved"
	return s
}

// Moving reports whether the ranks stand, or are about to, so that some can move.
func (h *Head) Moving() bool {
	return h.run != nil && h.run.move != nil && h.run.phase >= phaseDraining
}
