package engine

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/rpi"
)

// Irecv begins to receive into p a message from src (or AnySource) with tag (or AnyTag). The engine
// writes p until the request is waited for or tested complete. A nil t takes any type. Errors of the
// call are as for Isend. ErrTruncate, ErrType, ErrCanceled and ErrPeerFailed come from Wait or Test.
// (MPI-4.1 chapter 3.7)
func (e *Engine) Irecv(src int, ctx uint64, tag int32, t *Type, p []byte) (Request, error) {
	if !e.mu.enter() { // see plain for why it is written like this
		return e.irecvLate(src, ctx, tag, t, p)
	}
	r := e.freeRequests
	if uint(src) < uint(e.plain) && tag >= 0 && r.next != nil && e.table.kept == 0 {
		if q := e.table.recent[src+1]; q != nil && q.key.ctx == ctx && q.key.srcTag == uint64(src)<<32|uint64(tag) {
			e.back.ticks.Calls++
			e.table.seq++
			e.table.listed++
			r.peer, r.ctx, r.tag, r.size, r.seq = int32(src), ctx, tag, len(p), e.table.seq
			r.phase, r.recv = phasePosted, true
			next, tail := r.next, q.posted.tail
			r.typ, r.buf, r.prev, r.next, q.posted.tail, e.freeRequests = t, p, tail, nil, r, next
			if tail != nil {
				tail.next = r
			} else {
				q.posted.head = r
			}
			h := r.handle()
			left := e.exit()
			if left == 0 {
				return h, nil
			}
			e.pass(left)
			return h, nil
		}
	}
	return e.irecv(src, ctx, tag, t, p)
}

// irecvLate is Irecv for a caller that did not get in at once.
func (e *Engine) irecvLate(src int, ctx uint64, tag int32, t *Type, p []byte) (Request, error) {
	e.mu.lockSlow()
	return e.irecv(src, ctx, tag, t, p)
}

// irecv is Irecv with the lock held.
func (e *Engine) irecv(src int, ctx uint64, tag int32, t *Type, p []byte) (Request, error) {
	e.back.ticks.Calls++
	r := e.freeRequests
	e.takeRequest(r)
	r.is(src, ctx, tag, t, p)
	if e.plainRecv(src, tag) && e.table.kept == 0 {
		e.postRecv(r)
	} else if err := e.checkRecv(src, ctx, tag); err != nil {
		e.freeRequest(r)
		e.leave()
		return Request{}, err
	} else {
		e.startRecv(r)
	}
	h := r.handle()
	if left := e.exit(); left != 0 {
		e.pass(left)
	}
	return h, nil
}

// Recv receives a message into p. If v ends the wait first, the receive is withdrawn. If a message
// for it has begun to arrive, it is finished instead. Errors: ErrRank, ErrTag, ErrTruncate (what
// fits is in p), ErrType, ErrPeerFailed, ErrPoisoned, ErrAborted, ErrDeadline. (MPI-4.1 chapter 3.2)
func (e *Engine) Recv(src int, ctx uint64, tag int32, t *Type, p []byte, v *View) (Status, error) {
	if !e.mu.enter() { // see plain for why it is written like this
		return e.recvLate(src, ctx, tag, t, p, v)
	}
	if n := e.recvShort(src, ctx, tag, t, p, v); n >= 0 {
		e.back.ticks.Calls++
		st := Status{Source: src, Tag: int(tag), Bytes: n, Type: t.ID}
		left := e.exit()
		if left == 0 {
			return st, nil
		}
		e.pass(left)
		return st, nil
	} else if n == shared.TakePart {
		v = nil // a part of the message is in p: this receive must get the rest
	}
	return e.recvOdd(src, ctx, tag, t, p, v)
}

// recvLate is Recv for a caller that did not get in at once.
func (e *Engine) recvLate(src int, ctx uint64, tag int32, t *Type, p []byte, v *View) (Status, error) {
	e.mu.lockSlow()
	return e.recvOdd(src, ctx, tag, t, p, v)
}

// recvOdd is Recv with the lock held.
func (e *Engine) recvOdd(src int, ctx uint64, tag int32, t *Type, p []byte, v *View) (Status, error) {
	e.back.ticks.Calls++
	st, err := e.recv(src, ctx, tag, t, p, v)
	e.leave()
	return st, err
}

func (e *Engine) recv(src int, ctx uint64, tag int32, t *Type, p []byte, v *View) (Status, error) {
	if err := e.checkRecv(src, ctx, tag); err != nil {
		return Status{}, err
	}
	if err := v.Err(); err != nil {
		return Status{}, err
	}
	r := e.startRecv(e.newRequest(src, ctx, tag, t, p))
	r.blocking = true
	return e.finish(r, v)
}

func (e *Engine) checkRecv(src int, ctx uint64, tag int32) error {
	if e.plainRecv(src, tag) {
		return nil
	}
	return e.whyNotRecv(src, ctx, tag)
}

// plainRecv reports whether a receive from another rank needs no further checks.
func (e *Engine) plainRecv(src int, tag int32) bool {
	return uint(src) < uint(e.plain) && tag >= AnyTag
}

func (e *Engine) whyNotRecv(src int, ctx uint64, tag int32) error {
	if err := e.aborted(); err != nil {
		return err
	}
	if uint(src) >= uint(e.size) && src != AnySource && src != ProcNull {
		return fmt.Errorf("%w: receive from %d of %d", ErrRank, src, e.size)
	}
	if tag < AnyTag {
		return fmt.Errorf("%w: receive with tag %d", ErrTag, tag)
	}
	return e.poisoned[ctx]
}

// startRecv begins a receive that checkRecv found possible.
func (e *Engine) startRecv(r *request) *request {
	r.recv = true
	src := int(r.peer)
	if src == ProcNull {
		r.status = Status{Source: ProcNull, Tag: AnyTag}
		r.phase = phaseDone
		return r
	}
	if e.table.kept != 0 {
		if m := e.table.first(r.ctx, src, r.tag); m != nil {
			e.table.remove(m)
			e.deliver(r, m)
			return r
		}
	}
	if uint(src) < uint(len(e.peers)) && e.peers[src].failed != nil {
		e.complete(r, e.peers[src].failed)
		return r
	}
	e.postRecv(r)
	return r
}

// postRecv begins a receive that has to wait for its message.
func (e *Engine) postRecv(r *request) {
	r.recv = true
	r.phase = phasePosted
	e.table.post(r)
}

// matched ties a receive to a message, and returns how many of its bytes go into the buffer.
func (e *Engine) matched(r *request, src int, h *rpi.Header) (room uint64) {
	r.status = Status{Source: src, Tag: int(h.Tag), Bytes: int(h.Len), Type: h.Type}
	room = h.Len
	if r.typ != nil && r.typ.ID != h.Type {
		r.err = &TypeError{Source: src, Tag: h.Tag, Got: h.Type, Want: r.typ}
		return 0
	}
	if have := uint64(len(r.buf)); room > have {
		if r.typ != nil && r.typ.Room != nil {
			r.buf = r.typ.Room(int(room))
			return room
		}
		r.err = &TruncateError{Source: src, Tag: h.Tag, Bytes: h.Len, Room: len(r.buf)}
		return have
	}
	return room
}

// deliver gives an unexpected message, already out of the table, to a receive.
func (e *Engine) deliver(r *request, m *message) {
	switch {
	case m.gone:
		r.status = m.status()
		e.complete(r, givenUp(m.src, m.h.Tag))
	case m.local != nil:
		e.copySelf(r, m.local)
	case m.announced():
		e.accept(r, m.src, &m.h)
	default:
		room := e.matched(r, m.src, &m.h)
		copy(r.buf[:room], m.data)
		if m.foreign && room > 0 && r.typ != nil && r.typ.Swap != nil {
			r.typ.Swap(r.buf[:room])
		}
		if m.h.Kind == rpi.EagerSync {
			e.respond(&e.peers[m.src], reply{kind: rpi.Ack, req: m.h.Req})
		}
		e.complete(r, nil)
	}
	e.messages.put(m)
}

// accept answers an announcement with the go-ahead for a receive.
func (e *Engine) accept(r *request, src int, h *rpi.Header) {
	pr := &e.peers[src]
	r.long, r.want = true, e.matched(r, src, h)
	if pr.failed != nil {
		e.complete(r, pr.failed)
		return
	}
	r.phase = phaseRendezvous
	r.peerReq = h.Req
	if r.want == 0 { // nothing will travel: the sender only has to know
		e.respond(pr, reply{kind: rpi.CTS, req: h.Req})
		e.complete(r, nil)
		return
	}
	if h.Flags&rpi.FlagDirect != 0 {
		r.direct, r.theirs = true, h.Off
	}
	e.respond(pr, reply{kind: rpi.CTS, req: h.Req, r: r, gen: r.gen})
}

// landed notes n more bytes of an announced message.
func (e *Engine) landed(r *request, n uint64) {
	r.moved += n
	if r.moved == r.want {
		e.complete(r, nil)
	}
}

func givenUp(src int, tag int32) error {
	return fmt.Errorf("%w: rank %d gave the message with tag %d up", ErrCanceled, src, tag)
}

// Cancel withdraws a receive for which no message has begun to arrive. The receive then completes
// with ErrCanceled, otherwise as if Cancel had not been called. The request must still be waited
// for. ErrRequest means that it is not an active receive. (MPI-4.1 chapter 3.8.4)
func (e *Engine) Cancel(h Request) error {
	e.enter()
	defer e.leave()
	r, err := h.resolve()
	switch {
	case err != nil:
		return err
	case r != nil && r.phase == phaseComposed && r.plan.single():
		r = r.plan.Rounds[0].Parts[0].r // nil: it has come, and Do follows
	case r == nil || !r.recv:
		return fmt.Errorf("%w: only receives can be canceled", ErrRequest)
	}
	if r != nil && r.phase == phasePosted {
		e.table.unpost(r)
		e.complete(r, ErrCanceled)
	}
	return nil
}
