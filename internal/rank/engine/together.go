package engine

import "github.com/gorun-mpi/gorun/rpi"

// Move is one message of Together.
type Move struct {
	Peer   int // world rank, not this one
	Recv   bool
	Buf    []byte
	Status Status // of a receive, once it is over
	r      *request
}

// Together begins all moves, in their order, and returns when all are over. It takes one call, and
// one taking of the lock, for a step of a collective. Sends are Standard. Receives that come first
// are posted before anything is sent. Of several receives from one rank the first takes the first
// message.
//
// If something goes wrong, the rest is given up, or finished if it is under way. Together then
// returns the index of the move that failed first, with its error: one of Send or Recv.
func (e *Engine) Together(moves []Move, ctx uint64, tag, recvTag int32, t *Type, v *View) (failed int, err error) {
	e.enter()
	failed, err = e.together(moves, ctx, tag, recvTag, t, v)
	e.leave()
	return failed, err
}

func (e *Engine) together(moves []Move, ctx uint64, tag, recvTag int32, t *Type, v *View) (failed int, err error) {
	failed = -1
	if err = v.Err(); err != nil {
		return failed, err
	}
	for i := range moves {
		m := &moves[i]
		if m.Recv {
			if err = e.checkRecv(m.Peer, ctx, recvTag); err == nil {
				m.r = e.startRecv(e.newRequest(m.Peer, ctx, recvTag, t, m.Buf))
			}
		} else if err = e.checkSend(m.Peer, ctx, tag); err == nil {
			m.r = e.startMove(m.Peer, ctx, tag, t, m.Buf)
		}
		if err != nil {
			failed = i
			break
		}
		if m.r != nil {
			m.r.blocking = true
		}
	}
	e.flush() // this is a wait, even if there is nothing to wait for
	for i := range moves {
		m := &moves[i]
		r := m.r
		m.r = nil
		switch {
		case r == nil:
		case err == nil:
			if m.Status, err = e.finish(r, v); err != nil {
				failed = i
			}
		case !e.abandon(r):
			_, _ = e.finish(r, nil)
		}
	}
	return failed, err
}

// startMove begins a send. nil means that the module has taken the message at once.
func (e *Engine) startMove(dst int, ctx uint64, tag int32, t *Type, p []byte) *request {
	pr := &e.peers[dst]
	if dst == e.rank || len(p) > pr.eager || pr.stuck() {
		return e.startSend(e.newRequest(dst, ctx, tag, t, p), Standard)
	}
	next := e.freeRequests
	e.fill(rpi.Eager, ctx, tag, t, len(p))
	switch e.offer(pr, &e.out, p, rpi.Ref(next.id()), e.batch(pr, len(p))) {
	case rpi.Taken:
		return nil
	case rpi.Held:
		r := e.newRequest(dst, ctx, tag, t, p)
		r.phase, r.held = phaseSent, 1
		return r
	}
	return e.startSend(e.newRequest(dst, ctx, tag, t, p), Standard) // queued
}

// Exchange is Together for one message each way, with other ranks. receiving tells whether an error
// comes from the receive.
func (e *Engine) Exchange(dst int, out []byte, src int, in []byte, ctx uint64, tag, recvTag int32, t *Type, v *View) (st Status, receiving bool, err error) {
	e.enter()
	st, receiving, err = e.exchange(dst, out, src, in, ctx, tag, recvTag, t, v)
	e.leave()
	return st, receiving, err
}

func (e *Engine) exchange(dst int, out []byte, src int, in []byte, ctx uint64, tag, recvTag int32, t *Type, v *View) (st Status, receiving bool, err error) {
	if err = v.Err(); err != nil {
		return st, true, err
	}
	if err = e.checkRecv(src, ctx, recvTag); err != nil {
		return st, true, err
	}
	if err = e.checkSend(dst, ctx, tag); err != nil {
		return st, false, err
	}
	r := e.startRecv(e.newRequest(src, ctx, recvTag, t, in))
	r.blocking = true
	s := e.startMove(dst, ctx, tag, t, out)
	e.flush() // as in Together
	if s != nil {
		s.blocking = true
		if _, err = e.finish(s, v); err != nil {
			if !e.abandon(r) {
				_, _ = e.finish(r, nil)
			}
			return st, false, err
		}
	}
	st, err = e.finish(r, v)
	return st, true, err
}
