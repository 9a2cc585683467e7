package engine

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/pace"
)

// Message is a message that a matched probe took: only Imrecv receives it.
type Message struct {
	m   *message
	gen uint32
}

// Probe waits for a message that a receive with the same arguments would get,
// and describes it. It stays where it is. (MPI-4.1 chapter 3.8.1)
func (e *Engine) Probe(src int, ctx uint64, tag int32, v *View) (Status, error) {
	e.enter()
	defer e.leave()
	m, st, err := e.awaitMessage(src, ctx, tag, v)
	if m == nil {
		return st, err
	}
	return m.status(), nil
}

// Iprobe is Probe without waiting.
func (e *Engine) Iprobe(src int, ctx uint64, tag int32) (Status, bool, error) {
	e.enter()
	defer e.leave()
	m, st, err := e.seekMessage(src, ctx, tag)
	if m == nil {
		e.missed()
		return st, err == nil && src == ProcNull, err
	}
	return m.status(), true, nil
}

// Mprobe waits like Probe and takes the message, so that no other receive gets
// it. (MPI-4.1 chapter 3.8.2)
func (e *Engine) Mprobe(src int, ctx uint64, tag int32, v *View) (Message, Status, error) {
	e.enter()
	defer e.leave()
	m, st, err := e.awaitMessage(src, ctx, tag, v)
	if m == nil {
		return Message{}, st, err
	}
	return e.take(m), m.status(), nil
}

// Improbe is Mprobe without waiting.
func (e *Engine) Improbe(src int, ctx uint64, tag int32) (Message, Status, bool, error) {
	e.enter()
	defer e.leave()
	m, st, err := e.seekMessage(src, ctx, tag)
	if m == nil {
		e.missed()
		return Message{}, st, err == nil && src == ProcNull, err
	}
	return e.take(m), m.status(), true, nil
}

// Imrecv begins to receive a message taken by a matched probe. The zero Message, which a probe of
// ProcNull gives, is received as nothing. A message that was received already is ErrRequest.
// (MPI-4.1 chapter 3.8.3)
func (e *Engine) Imrecv(h Message, t *Type, p []byte) (Request, error) {
	e.enter()
	defer e.leave()
	if err := e.aborted(); err != nil {
		return Request{}, err
	}
	m := h.m
	if m == nil {
		return e.startRecv(e.newRequest(ProcNull, 0, AnyTag, t, p)).handle(), nil
	}
	if m.gen != h.gen || !m.taken {
		return Request{}, fmt.Errorf("%w: the message was received already", ErrRequest)
	}
	e.taken.remove(m)
	r := e.newRequest(m.src, m.h.Ctx, m.h.Tag, t, p)
	r.recv = true
	e.deliver(r, m)
	return r.handle(), nil
}

func (e *Engine) take(m *message) Message {
	e.table.remove(m)
	m.taken = true
	e.taken.push(m)
	return Message{m, m.gen}
}

// seekMessage looks for a message, makes progress if it is not there, and looks again. For ProcNull
// it returns no message, and the status for that.
func (e *Engine) seekMessage(src int, ctx uint64, tag int32) (*message, Status, error) {
	if err := e.checkRecv(src, ctx, tag); err != nil {
		return nil, Status{}, err
	}
	if src == ProcNull {
		return nil, Status{Source: ProcNull, Tag: AnyTag}, nil
	}
	m := e.table.first(ctx, src, tag)
	if m == nil {
		e.flush()
		e.poll()
		m = e.table.first(ctx, src, tag)
	}
	if m == nil && src >= 0 && e.peers[src].failed != nil {
		return nil, Status{}, e.peers[src].failed
	}
	return m, Status{}, nil
}

func (e *Engine) awaitMessage(src int, ctx uint64, tag int32, v *View) (*message, Status, error) {
	for {
		if err := v.Err(); err != nil {
			return nil, Status{}, err
		}
		m, st, err := e.seekMessage(src, ctx, tag)
		if m != nil || err != nil || src == ProcNull {
			return m, st, err
		}
		w := e.newWaiter()
		w.probe, w.src, w.ctx, w.tag = true, int32(src), ctx, tag
		err = e.await(w, v, new(pace.Spell))
		if err == nil {
			err = w.err
		}
		e.freeWaiting(w)
		if err != nil {
			return nil, Status{}, err
		}
	}
}

// tellProbes wakes the probes that an arrived message fits.
func (e *Engine) tellProbes(m *message) {
	for w := e.blocked.head; w != nil; {
		next := w.next
		if w.probe && w.ctx == m.h.Ctx && (w.src == AnySource || int(w.src) == m.src) &&
			(w.tag == AnyTag || w.tag == m.h.Tag) {
			e.satisfy(w)
		}
		w = next
	}
}
