package engine

import (
	"errors"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/internal/rank/shmcoll"
	"github.com/gorun-mpi/gorun/rpi"
)

// peer is the engine's state of another rank. Frames leave in this order: replies, then lines of
// teams, then first frames of messages in the order of the calls, then data of announced messages.
// So a small message overtakes a large one's data, but never another message's first frame, which
// matching goes by.
type peer struct {
	mod       rpi.Module
	shortcut  shared.Shortcut // mod, if it is one
	open      *shared.Open    // what it sent last
	rank      int
	short     int   // longest message that may go at once; -1 if none may
	eager     int   // longest message sent unannounced
	failed    error // the peer has failed
	first     requestList
	flushed   uint64           // Engine.flushes when a message last went at once
	bit       uint64           // of mod in Engine.dirty
	blocked   bool             // Send answered Full, and Writable has not followed
	listed    bool             // in Engine.ready
	direct    rpi.DirectWriter // mod, if it is one
	reader    rpi.DirectReader // likewise
	directMin int              // shortest message that it copies directly
	replies   replyQueue
	streams   requestList // sends under way
	pulls     requestList // receives that read their messages directly
	in        arriving
	down      error // the channel is gone; not acted upon yet
}

// arriving is the frame between Begin and End.
type arriving struct {
	h     rpi.Header
	begun bool
	r     *request      // the operation that it belongs to
	m     *message      // or where an unexpected payload goes
	seat  *shmcoll.Seat // or on whose mirror a line goes
	posts uint64        // table.seq at Begin
}

// reply is a frame without payload that answers one.
type reply struct {
	kind  rpi.Kind
	flags uint8
	req   uint64   // names the peer's request
	off   uint64   // Poison: code
	ctx   uint64   // Poison
	r     *request // CTS: the receive
	gen   uint32   // of r
}

// replyQueue is a queue that keeps its memory.
type replyQueue struct {
	items []reply
	head  int
}

func (q *replyQueue) push(r reply) { q.items = append(q.items, r) }

func (q *replyQueue) first() *reply {
	if q.head == len(q.items) {
		return nil
	}
	return &q.items[q.head]
}

func (q *replyQueue) pop() {
	q.items[q.head].r = nil
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
}

// maxHeld is how many frames of one message a module may hold at once: 64 MB.
const maxHeld = 64

// stuck reports whether a new message has to queue behind others.
func (pr *peer) stuck() bool { return pr.blocked || pr.first.head != nil }

// lose marks the peer as one that no module reaches.
func (pr *peer) lose() {
	pr.mod, pr.shortcut, pr.direct, pr.reader, pr.short, pr.open = nil, nil, nil, nil, -1, &shut
}

// enlist notes that the peer may have something to send.
func (e *Engine) enlist(pr *peer) {
	if !pr.listed {
		pr.listed = true
		e.ready = append(e.ready, pr)
	}
}

// respond queues a reply. It is counted when it is sent, with the gate open.
func (e *Engine) respond(pr *peer, r reply) {
	pr.replies.push(r)
	e.enlist(pr)
}

// pump sends what can be sent to the enlisted peers, and makes the direct copies. These take long.
// With brief, or if a caller waits for the lock, it ends after one segment and reports that there
// is more to do.
func (e *Engine) pump(brief bool) (more bool) {
	for i := 0; i < len(e.ready); i++ { // grows meanwhile: modules call Writable
		pr := e.ready[i]
		pr.listed = false
		if e.pumpPeer(pr, brief) {
			e.enlist(pr) // after the others
			e.ready = e.ready[:copy(e.ready, e.ready[i+1:])]
			return true
		}
	}
	e.ready = e.ready[:0]
	return false
}

func (e *Engine) pumpPeer(pr *peer, brief bool) (more bool) {
	for pr.failed == nil && pr.mod != nil {
		copied := false
		if rp := pr.replies.first(); pr.blocked {
			// Only direct reads, which need no frame.
		} else if rp != nil {
			if e.sendReply(pr, rp) {
				pr.replies.pop()
			}
			continue
		} else if e.teams.HasLines(pr.rank) && e.teams.SendLine(pr.rank) {
			continue
		} else if r := pr.first.head; r != nil {
			e.sendFirst(pr, r)
			continue
		} else if r := pr.streams.head; r != nil && r.held < maxHeld {
			if copied = r.direct; !copied {
				e.sendData(pr, r)
				continue
			}
			e.sendData(pr, r)
		}
		if copied = e.pull(pr) || copied; !copied {
			return false
		}
		if brief || e.mu.contended() {
			return true
		}
	}
	return false
}

// offer gives a frame to the peer's module and counts it if it was taken.
func (e *Engine) offer(pr *peer, h *rpi.Header, payload []byte, ref rpi.Ref, more bool) rpi.SendResult {
	res := pr.mod.Send(pr.rank, h, payload, ref, more)
	if res == rpi.Full {
		pr.blocked = true
		return rpi.Full
	}
	if Checkpointing {
		e.sent[pr.rank] += h.Counted()
	}
	return res
}

// sendReply reports whether the reply is dealt with.
func (e *Engine) sendReply(pr *peer, rp *reply) bool {
	h := &e.out
	*h = rpi.Header{Kind: rp.kind, Flags: rp.flags, Req: rp.req, Off: rp.off, Ctx: rp.ctx}
	r := rp.r
	if rp.kind == rpi.CTS && r != nil {
		if r.gen != rp.gen || r.phase != phaseRendezvous {
			return true // failed meanwhile
		}
		h.Off, h.Len = r.id(), r.want
		if pr.direct != nil && r.want >= uint64(pr.directMin) {
			e.publish(pr, r, r.buf[:r.want])
		}
		if r.published {
			h.Flags |= rpi.FlagDirect
			h.Ctx = r.mine
		}
		if r.split = 0; r.direct && pr.reader != nil {
			r.split = splitOf(r.want)
		}
		if r.split > 0 {
			h.Flags |= rpi.FlagPull
		}
	}
	if e.offer(pr, h, nil, 0, false) == rpi.Full {
		return false
	}
	if h.Flags&rpi.FlagPull != 0 {
		r.pulling = true
		pr.pulls.push(r)
	}
	return true
}

var errChannel = errors.New("channel closed")

// failDowns acts upon lost channels. With the gate open each is a failure of its peer.
func (e *Engine) failDowns() {
	e.due -= e.downs
	e.downs = 0
	for i := range e.peers {
		if pr := &e.peers[i]; pr.down != nil {
			err := pr.down
			pr.down = nil
			if pr.failed == nil {
				e.failPeer(pr, err)
			}
		}
	}
}

// failPeer fails every operation that needs the peer. Whole messages of the peer that have arrived
// can still be received.
func (e *Engine) failPeer(pr *peer, cause error) {
	pr.failed, pr.short, pr.open = peerFailed(pr.rank, cause), -1, &shut
	e.someDown = true
	e.judge()
	if e.failed != nil {
		e.failed(pr.rank, pr.failed)
	}
	pr.replies = replyQueue{}
	if m := pr.in.m; m != nil {
		e.messages.put(m)
	}
	pr.in = arriving{}
	for _, r := range e.requests {
		if !e.needs(r, pr) {
			continue
		}
		switch r.phase {
		case phaseQueued:
			pr.first.remove(r)
		case phaseStream:
			pr.streams.remove(r)
		case phasePosted:
			e.table.unpost(r)
		case phaseRendezvous:
			if r.pulling {
				pr.pulls.remove(r)
			}
		}
		r.held = 0
		e.complete(r, pr.failed)
	}
	for w := e.blocked.head; w != nil; {
		next := w.next
		if w.probe && int(w.src) == pr.rank {
			e.endProbe(w, pr.failed)
		}
		w = next
	}
	e.failTeams(pr)
}

// needs reports whether r cannot end without the peer.
func (e *Engine) needs(r *request, pr *peer) bool {
	switch r.phase {
	case phaseFree, phaseDone:
		return false
	case phaseMatched, phaseRendezvous:
		return r.status.Source == pr.rank
	}
	return int(r.peer) == pr.rank
}

// shut is the Open of a peer without one.
var shut shared.Open
