package engine

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/system/memcopy"
	"github.com/gorun-mpi/gorun/rpi"
)

// A frame arrives in one of four ways. Three are in this file: End, Deliver and DeliverAlike. The
// fourth is recvShort, by which a receive asks the module itself. Only these call arrived. So the
// bookmarks count exactly what was received.

// arrived counts bytes of frames of a peer, headers included.
func (e *Engine) arrived(peer int, bytes uint64) {
	if Checkpointing {
		e.received[peer] += bytes
	}
}

// sink is the engine as module i sees it.
type sink struct {
	e *Engine
	i int
}

func (s *sink) Begin(peer int, h *rpi.Header) ([]byte, error) {
	if uint(peer) >= uint(s.e.size) || peer == s.e.rank {
		return nil, fmt.Errorf("%w: from rank %d", errCorrupt, peer)
	}
	return s.e.begin(&s.e.peers[peer], h)
}

func (s *sink) End(peer int) { s.e.end(&s.e.peers[peer]) }

// Deliver takes a short way for most messages: they are short, and a receive waits for them.
func (s *sink) Deliver(peer int, h *rpi.Header, payload []byte) error {
	e := s.e
	if h.Kind == rpi.Eager && uint(peer) < uint(len(e.received)) && peer != e.rank {
		if r := e.table.takePosted(h.Ctx, peer, h.Tag); r != nil {
			e.arrived(peer, rpi.HeaderSize+h.Len)
			if h.Len <= uint64(len(r.buf)) && (r.typ == nil || r.typ.ID == h.Type) {
				r.status = Status{Source: peer, Tag: int(h.Tag), Bytes: int(h.Len), Type: h.Type}
				if len(payload) == 8 && len(r.buf) >= 8 { // which spares a call
					*(*[8]byte)(r.buf) = *(*[8]byte)(payload)
				} else {
					memcopy.Bytes(r.buf, payload)
				}
			} else {
				memcopy.Bytes(r.buf[:e.matched(r, peer, h)], payload)
			}
			if r.phase = phaseDone; r.w != nil || r.after != 0 {
				e.complete(r, nil)
			}
			if e.table.idle() {
				return rpi.Enough
			}
			return nil
		}
	}
	dst, err := s.Begin(peer, h)
	if err != nil {
		return err
	}
	memcopy.Bytes(dst, payload)
	s.e.end(&s.e.peers[peer])
	return nil
}

// DeliverAlike looks once for the receives that wait for just that.
func (s *sink) DeliverAlike(peer int, h *rpi.Header, payloads []byte, count int) (taken int, enough bool) {
	e := s.e
	if uint(peer) >= uint(len(e.received)) || peer == e.rank {
		return 0, false
	}
	q := e.table.onlyQueue(h.Ctx, peer, h.Tag)
	if a := e.table.alone; q == nil || a != nil && a.fits(h.Ctx, peer, h.Tag) {
		return 0, false
	}
	n, typ := int(h.Len), h.Type
	st := Status{Source: peer, Tag: int(h.Tag), Bytes: n, Type: typ}
	r := q.posted.head
	for ; taken < count && r != nil && n <= len(r.buf) && (r.typ == nil || r.typ.ID == typ); taken++ {
		next := r.next
		if n == 8 {
			*(*[8]byte)(r.buf) = *(*[8]byte)(payloads[8*taken:])
		} else {
			copy(r.buf, payloads[n*taken:][:n])
		}
		r.status = st
		if r.phase = phaseDone; r.w != nil || r.after != 0 {
			e.complete(r, nil)
		}
		r = next
	}
	e.table.taken(q, r, taken)
	e.arrived(peer, uint64(taken)*(rpi.HeaderSize+h.Len))
	return taken, taken > 0 && e.table.idle()
}

func (s *sink) Sent(peer int, ref rpi.Ref) {
	if r := s.e.lookup(uint64(ref)); r != nil && r.held > 0 {
		r.held--
		if r.phase == phaseStream {
			s.e.enlist(&s.e.peers[peer])
		}
		s.e.settleSend(r)
	}
}

func (s *sink) Writable(peer int) {
	pr := &s.e.peers[peer]
	pr.blocked = false
	s.e.enlist(pr)
}

func (s *sink) Down(peer int, err error) {
	pr := &s.e.peers[peer]
	if pr.down != nil || pr.failed != nil {
		return
	}
	if err == nil {
		err = errChannel
	}
	pr.down = err
	s.e.downs++
	s.e.due++
}

// begin finds where the payload of an arriving frame goes. A message goes straight into the buffer
// of the receive that it fits.
func (e *Engine) begin(pr *peer, h *rpi.Header) ([]byte, error) {
	in := &pr.in
	in.h, in.begun, in.r, in.m, in.seat = *h, true, nil, nil, nil
	switch h.Kind {
	case rpi.Eager, rpi.EagerSync:
		if h.Len > rpi.MaxFrame {
			return nil, fmt.Errorf("%w: message of %d bytes", errCorrupt, h.Len)
		}
		return e.beginMessage(pr, in), nil
	case rpi.Data, rpi.Direct:
		r := e.lookup(h.Req)
		if r == nil || r.phase != phaseRendezvous || r.status.Source != pr.rank ||
			h.Off > r.want || h.Len > r.want-h.Off || h.Len > r.missing() {
			return nil, fmt.Errorf("%w: data that nobody asked for", errCorrupt)
		}
		in.r = r
		if h.Kind == rpi.Data {
			return r.buf[h.Off : h.Off+h.Len], nil
		}
	case rpi.CTS:
		if r := e.lookup(h.Req); r != nil && (r.phase == phaseAnnounced && int(r.peer) != pr.rank || h.Len > uint64(len(r.buf))) {
			return nil, fmt.Errorf("%w: go-ahead for another message", errCorrupt)
		}
	case rpi.Line:
		dst, seat, err := e.teams.Begin(pr.rank, h)
		in.seat = seat
		return dst, err
	case rpi.RTS, rpi.Ack, rpi.Poison, rpi.Fin:
	default:
		return nil, fmt.Errorf("%w: kind %d", errCorrupt, h.Kind)
	}
	return nil, nil
}

func (e *Engine) beginMessage(pr *peer, in *arriving) []byte {
	h := &in.h
	if r := e.table.takePosted(h.Ctx, pr.rank, h.Tag); r != nil {
		in.r = r
		r.phase = phaseMatched
		return r.buf[:e.matched(r, pr.rank, h)]
	}
	if len(e.poisoned) != 0 && e.poisoned[h.Ctx] != nil {
		return nil
	}
	m := e.messages.get(int(h.Len))
	m.h, m.src = *h, pr.rank
	in.m, in.posts = m, e.table.seq
	return m.data
}

// end acts upon a whole frame.
func (e *Engine) end(pr *peer) {
	in := &pr.in
	if !in.begun {
		return
	}
	in.begun = false
	h := &in.h
	e.arrived(pr.rank, h.Counted())
	switch h.Kind {
	case rpi.Eager, rpi.EagerSync:
		e.endMessage(pr, in)
	case rpi.RTS:
		e.announced(pr, h)
	case rpi.CTS:
		r := e.lookup(h.Req)
		switch {
		case r != nil && r.phase == phaseAnnounced && h.Flags&rpi.FlagGone != 0:
			e.refused(pr, r)
		case r != nil && r.phase == phaseAnnounced:
			e.goAhead(pr, r, h)
		case h.Len > 0: // given up since
			e.respond(pr, reply{kind: rpi.Data, flags: rpi.FlagGone, req: h.Off})
		}
	case rpi.Data, rpi.Direct:
		if h.Flags&rpi.FlagGone != 0 {
			if in.r.pulling {
				pr.pulls.remove(in.r)
			}
			e.complete(in.r, givenUp(pr.rank, int32(in.r.status.Tag)))
		} else {
			e.landed(in.r, h.Len)
		}
	case rpi.Ack:
		r := e.lookup(h.Req)
		switch {
		case r == nil || r.phase != phaseAck || int(r.peer) != pr.rank: // given up since
		case h.Flags&rpi.FlagGone != 0 && r.held == 0:
			e.refused(pr, r)
		default:
			r.phase = phaseSent
			e.settleSend(r)
		}
	case rpi.Fin:
		e.finished(pr, h)
	case rpi.Poison:
		e.poison(h.Ctx, poisonCause(pr.rank, h.Off))
	case rpi.Line:
		if in.seat != nil {
			in.seat.End(h)
		}
	}
	in.r, in.m = nil, nil
}

func (e *Engine) endMessage(pr *peer, in *arriving) {
	h := &in.h
	switch m := in.m; {
	case m != nil:
		if in.posts != e.table.seq { // a receive was posted while the payload arrived
			if r := e.table.takePosted(h.Ctx, pr.rank, h.Tag); r != nil {
				e.deliver(r, m)
				return
			}
		}
		e.arrive(m)
		return
	case in.r != nil:
		e.complete(in.r, nil)
		if h.Kind == rpi.EagerSync {
			e.respond(pr, reply{kind: rpi.Ack, req: h.Req})
		}
	case h.Kind == rpi.EagerSync: // dropped: the context is poisoned
		e.respond(pr, reply{kind: rpi.Ack, flags: rpi.FlagGone, req: h.Req})
	}
}

// announced acts upon an RTS.
func (e *Engine) announced(pr *peer, h *rpi.Header) {
	if r := e.table.takePosted(h.Ctx, pr.rank, h.Tag); r != nil {
		e.accept(r, pr.rank, h)
		return
	}
	if len(e.poisoned) != 0 && e.poisoned[h.Ctx] != nil {
		e.respond(pr, reply{kind: rpi.CTS, flags: rpi.FlagGone, req: h.Req})
		return
	}
	m := e.messages.get(0)
	m.h, m.src = *h, pr.rank
	e.arrive(m)
}

// arrive keeps a message until it is received.
func (e *Engine) arrive(m *message) {
	e.table.add(m, false)
	if e.table.probes != 0 {
		e.tellProbes(m)
	}
}
