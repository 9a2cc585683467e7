package engine

import (
	"fmt"

	"github.com/gorun-mpi/gorun/rpi"
)

// SendMode says when a send is over (MPI-4.1 chapter 3.4).
type SendMode uint8

const (
	Standard    SendMode = iota // when the buffer may be used again
	Synchronous                 // when, besides, a receive has matched it
)

// selfEager is the longest message to itself that a rank copies aside when no
// receive is posted. A Send of it returns before its Recv, as one to another rank
// does: programs rely on that. It is no gain in time. With the copy a round of Isend
// and Recv of 32 KB takes 2.0 of the time, of 8 bytes .97 (EPYC).
const selfEager = 64 << 10

// Isend begins to send p to rank dst. The engine reads p until the request is waited for or tested
// complete. Errors: ErrRank, ErrTag, ErrPoisoned, ErrPeerFailed, ErrAborted; then there is no
// request. (MPI-4.1 chapter 3.7)
func (e *Engine) Isend(dst int, ctx uint64, tag int32, t *Type, p []byte, mode SendMode) (Request, error) {
	if !e.mu.enter() { // see plain for why it is written like this
		return e.isendLate(dst, ctx, tag, t, p, mode)
	}
	r := e.freeRequests
	if uint(dst) < uint(e.plain) && r.next != nil && mode == Standard {
		if o := e.peers[dst].open; len(p) == 8 && o.Like(ctx, tag, t.id(), 8) {
			e.back.ticks.Calls++
			e.freeRequests = r.next
			o.Add8(p)
			e.count(dst, 8)
			r.was(dst, ctx, tag, 8)
			h := r.handle()
			left := e.exit()
			if left == 0 {
				return h, nil
			}
			e.pass(left)
			return h, nil
		}
	}
	return e.isend(dst, ctx, tag, t, p, mode)
}

// isendLate is Isend for a caller that did not get in at once.
func (e *Engine) isendLate(dst int, ctx uint64, tag int32, t *Type, p []byte, mode SendMode) (Request, error) {
	e.mu.lockSlow()
	return e.isend(dst, ctx, tag, t, p, mode)
}

// isend is Isend with the lock held.
func (e *Engine) isend(dst int, ctx uint64, tag int32, t *Type, p []byte, mode SendMode) (Request, error) {
	e.back.ticks.Calls++
	r := e.freeRequests
	e.takeRequest(r)
	if mode == Standard && e.sendAtOnce(dst, ctx, tag, t, p) {
		r.was(dst, ctx, tag, len(p))
	} else if err := e.checkSend(dst, ctx, tag); err != nil {
		e.freeRequest(r)
		e.leave()
		return Request{}, err
	} else {
		r.is(dst, ctx, tag, t, p)
		e.startSend(r, mode)
	}
	h := r.handle()
	if left := e.exit(); left != 0 {
		e.pass(left)
	}
	return h, nil
}

// Send sends p to rank dst and returns when p may be used again or, with Synchronous, when a receive
// has matched it. If v ends the wait first, the message is given up. If it is under way already,
// Send finishes it. Errors: those of Isend and ErrDeadline. (MPI-4.1 chapter 3.2)
func (e *Engine) Send(dst int, ctx uint64, tag int32, t *Type, p []byte, mode SendMode, v *View) error {
	if !e.mu.enter() { // see plain for why it is written like this
		return e.sendLate(dst, ctx, tag, t, p, mode, v)
	}
	if uint(dst) >= uint(e.plain) || tag < 0 || mode != Standard || v != nil && v.fired.Load() {
		return e.sendOdd(dst, ctx, tag, t, p, mode, v)
	}
	pr := &e.peers[dst]
	if o := pr.open; o.Size != 0 {
		if len(p) != 8 || !o.Like(ctx, tag, t.id(), 8) {
			return e.sendOdd(dst, ctx, tag, t, p, mode, v)
		}
		o.Add8(p)
	} else {
		if pr.shortcut == nil || len(p) > pr.short || pr.blocked || pr.first.head != nil {
			return e.sendOdd(dst, ctx, tag, t, p, mode, v)
		}
		more := false
		if pr.flushed != e.flushes && len(p) <= smallMax { // as batch does
			pr.flushed = e.flushes
		} else {
			more = e.batch(pr, len(p))
		}
		if !pr.shortcut.SendShort(dst, ctx, tag, t.id(), p, more) {
			return e.sendRest(pr, ctx, tag, t, p, more, v)
		}
	}
	e.back.ticks.Calls++
	e.count(dst, len(p))
	left := e.exit()
	if left == 0 {
		return nil
	}
	e.pass(left)
	return nil
}

// sendLate is Send for a caller that did not get in at once.
func (e *Engine) sendLate(dst int, ctx uint64, tag int32, t *Type, p []byte, mode SendMode, v *View) error {
	e.mu.lockSlow()
	return e.sendOdd(dst, ctx, tag, t, p, mode, v)
}

// sendOdd is Send with the lock held.
func (e *Engine) sendOdd(dst int, ctx uint64, tag int32, t *Type, p []byte, mode SendMode, v *View) error {
	e.back.ticks.Calls++
	var err error
	if mode != Standard || v.done() || !e.sendAtOnce(dst, ctx, tag, t, p) {
		err = e.send(dst, ctx, tag, t, p, mode, v)
	}
	e.leave()
	return err
}

// sendRest is sendOdd for a message that the shortcut has refused.
func (e *Engine) sendRest(pr *peer, ctx uint64, tag int32, t *Type, p []byte, more bool, v *View) (err error) {
	e.back.ticks.Calls++
	if e.sendWhole(pr, ctx, tag, t, p, more) {
		e.count(pr.rank, len(p))
	} else {
		err = e.send(pr.rank, ctx, tag, t, p, Standard, v)
	}
	e.leave()
	return err
}

// send sends by a request and waits for it.
func (e *Engine) send(dst int, ctx uint64, tag int32, t *Type, p []byte, mode SendMode, v *View) error {
	if err := e.checkSend(dst, ctx, tag); err != nil {
		return err
	}
	if err := v.Err(); err != nil {
		return err
	}
	r := e.startSend(e.newRequest(dst, ctx, tag, t, p), mode)
	r.blocking = true
	_, err := e.finish(r, v)
	return err
}

// checkSend says why a send cannot begin.
func (e *Engine) checkSend(dst int, ctx uint64, tag int32) error {
	if err := e.aborted(); err != nil {
		return err
	}
	if uint(dst) >= uint(e.size) && dst != ProcNull {
		return fmt.Errorf("%w: send to %d of %d", ErrRank, dst, e.size)
	}
	if tag < 0 {
		return fmt.Errorf("%w: send with tag %d", ErrTag, tag)
	}
	if err := e.poisoned[ctx]; err != nil {
		return err
	}
	if dst != ProcNull && dst != e.rank {
		pr := &e.peers[dst]
		if pr.failed != nil {
			return pr.failed
		}
		if pr.mod == nil {
			return fmt.Errorf("%w: rank %d: no transport reaches it", ErrPeerFailed, dst)
		}
	}
	return nil
}

// fill prepares the header of a message's first frame.
func (e *Engine) fill(k rpi.Kind, ctx uint64, tag int32, t *Type, n int) {
	h := &e.out
	h.Kind, h.Flags, h.Tag, h.Ctx, h.Len = k, 0, tag, ctx, uint64(n)
	h.Req, h.Off, h.Type = 0, 0, t.id()
}

// startSend begins a send that checkSend found possible.
func (e *Engine) startSend(r *request, mode SendMode) *request {
	r.sync = mode == Synchronous
	switch dst := int(r.peer); {
	case dst == ProcNull:
		r.phase = phaseDone
	case dst == e.rank:
		e.sendSelf(r)
	default:
		pr := &e.peers[dst]
		r.phase = phaseQueued
		wasStuck := pr.stuck()
		pr.first.push(r)
		if !wasStuck {
			e.sendFirst(pr, r)
		}
	}
	switch r.phase {
	case phaseQueued, phaseAnnounced, phaseAck:
		e.waiting.add(r)
	}
	return r
}

// sendFirst offers the first frame of r, the head of pr.first.
func (e *Engine) sendFirst(pr *peer, r *request) {
	kind, payload, next := rpi.Eager, r.buf, phaseSent
	switch {
	case len(r.buf) > pr.eager:
		kind, payload, next = rpi.RTS, nil, phaseAnnounced
	case r.sync:
		kind, next = rpi.EagerSync, phaseAck
	}
	e.fill(kind, r.ctx, r.tag, r.typ, len(r.buf))
	if kind != rpi.Eager {
		e.out.Req = r.id()
	}
	if kind == rpi.RTS {
		r.long = true
		if pr.reader != nil && len(r.buf) >= pr.directMin {
			e.publish(pr, r, r.buf)
		}
		if r.published {
			e.out.Flags, e.out.Off = rpi.FlagDirect, r.mine
		}
	}
	res := e.offer(pr, &e.out, payload, rpi.Ref(r.id()), e.batch(pr, len(payload)))
	if res == rpi.Full {
		return
	}
	pr.first.remove(r)
	r.phase = next
	if res == rpi.Held {
		r.held++
	}
	e.settleSend(r)
}

// settleSend completes a send of which nothing is left to do.
func (e *Engine) settleSend(r *request) {
	if r.phase == phaseSent && r.held == 0 && !r.pulling {
		e.complete(r, nil)
	}
}

// goAhead acts upon a CTS.
func (e *Engine) goAhead(pr *peer, r *request, h *rpi.Header) {
	r.peerReq = h.Off
	r.want, r.end = h.Len, h.Len
	if h.Flags&rpi.FlagDirect != 0 && pr.direct != nil {
		r.direct, r.theirs = true, h.Ctx
	}
	if h.Flags&rpi.FlagPull != 0 {
		r.pulling, r.split = true, splitOf(r.want)
		r.moved, r.written = r.split, r.split
	} else {
		e.unpublish(pr, r)
	}
	if r.want == 0 {
		r.phase = phaseSent
		e.settleSend(r)
		return
	}
	r.phase = phaseStream
	pr.streams.push(r)
	e.enlist(pr)
}

// sendData offers the next piece of an announced message.
func (e *Engine) sendData(pr *peer, r *request) {
	n := r.end - r.moved
	h := &e.out
	*h = rpi.Header{Kind: rpi.Data, Req: r.peerReq, Off: r.moved}
	var payload []byte
	if r.direct && e.writeDirect(pr, r) {
		h.Kind, h.Len = rpi.Direct, r.written-r.moved
	} else {
		h.Len = min(n, rpi.MaxData)
		payload = r.buf[r.moved : r.moved+h.Len]
	}
	n = h.Len
	res := e.offer(pr, h, payload, rpi.Ref(r.id()), false)
	if res == rpi.Full {
		return
	}
	if res == rpi.Held {
		r.held++
	}
	r.moved += n
	if r.moved == r.end {
		e.nextRange(pr, r)
	}
}

// writeDirect makes sure that the next segment is in the peer's memory. It may have been written
// before, and its frame refused since. If it reports false, the message goes on as Data frames.
func (e *Engine) writeDirect(pr *peer, r *request) bool {
	if r.written > r.moved {
		return true
	}
	end := min(r.moved+rpi.MaxDirect, r.end)
	if pr.direct == nil || !pr.direct.Write(pr.rank, r.theirs, r.moved, r.buf[r.moved:end]) {
		r.direct = false
		return false
	}
	r.written = end
	return true
}

// sendSelf sends to this rank itself: no module takes part.
func (e *Engine) sendSelf(r *request) {
	if rv := e.table.takePosted(r.ctx, e.rank, r.tag); rv != nil {
		e.copySelf(rv, r)
		return
	}
	e.fill(rpi.RTS, r.ctx, r.tag, r.typ, len(r.buf))
	if !r.sync && len(r.buf) <= selfEager {
		e.out.Kind = rpi.Eager
		m := e.messages.get(len(r.buf))
		m.h, m.src = e.out, e.rank
		copy(m.data, r.buf)
		e.arrive(m)
		e.complete(r, nil)
		return
	}
	m := e.messages.get(0)
	m.h, m.src, m.local = e.out, e.rank, r
	r.phase, r.long, r.own = phaseAck, true, m
	e.arrive(m)
}

// copySelf gives the message of send s to receive r.
func (e *Engine) copySelf(r, s *request) {
	e.fill(rpi.Eager, s.ctx, s.tag, s.typ, len(s.buf))
	room := e.matched(r, e.rank, &e.out)
	copy(r.buf[:room], s.buf)
	e.complete(r, nil)
	e.complete(s, nil)
}

// abandon gives up an operation whose caller no longer waits, and frees it. If it reports false, the
// operation is under way and its buffer in use: the caller must wait for its end.
func (e *Engine) abandon(r *request) bool {
	switch r.phase {
	case phaseQueued:
		e.peers[r.peer].first.remove(r)
		e.unpublish(&e.peers[r.peer], r)
	case phaseAnnounced, phaseAck:
		// The peer's go-ahead will name a request that is over and be told so.
		if r.held != 0 {
			return false
		}
		if int(r.peer) == e.rank {
			e.dropLocal(r)
		}
		e.unpublish(&e.peers[r.peer], r)
	case phasePosted:
		e.table.unpost(r)
	default:
		return false
	}
	if r.after&afterIndexed != 0 {
		e.waiting.remove(r)
	}
	e.freeRequest(r)
	return true
}

// dropLocal removes the unexpected message that stands for a send to self.
func (e *Engine) dropLocal(r *request) {
	m := r.own
	if !m.taken {
		e.table.remove(m)
		e.messages.put(m)
		return
	}
	m.local, m.h.Len = nil, 0 // its receiver finds nothing behind it
	m.h.Kind = rpi.Eager
	m.gone = true
}
