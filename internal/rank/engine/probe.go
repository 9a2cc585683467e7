package engine

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/backoff"
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
	m, st, err := e.awaitMessage(src, ctx, tag, looks, v)
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
	m, st, err := e.awaitMessage(src, ctx, tag, takes, v)
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
// ProcNull returns, is received as an empty one. A message that was received already is
// ErrRequest. (MPI-4.1 chapter 3.8.3)
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

// awaitMessage waits for a message, which stays where it is.
func (e *Engine) awaitMessage(src int, ctx uint64, tag int32, to purpose, v *View) (*message, Status, error) {
	for woken := false; ; woken = true {
		if err := v.Err(); err != nil {
			if woken && to == takes {
				e.passProbe(src, ctx, tag)
			}
			return nil, Status{}, err
		}
		m, st, err := e.seekMessage(src, ctx, tag)
		if m != nil || err != nil || src == ProcNull {
			return m, st, err
		}
		w := e.newWaiter()
		w.probing = probing{probe: true, to: to, src: int32(src), ctx: ctx, tag: tag}
		e.table.watch(w)
		err = e.await(w, v, new(backoff.Spell))
		if err == nil {
			err = w.err
		}
		e.table.unwatch(w)
		e.freeWaiting(w)
		if err != nil {
			return nil, Status{}, err
		}
	}
}

// probing is the wait of a caller of Probe or Mprobe. It stands in the queue of its arguments, see
// match.go.
type probing struct {
	probe  bool
	to     purpose
	src    int32
	tag    int32
	ctx    uint64
	err    error  // why it ended
	queue  *queue // nil: in none, the message has come
	fellow waiterLink
}

// purpose says why a caller waits for a message.
type purpose uint8

const (
	looks purpose = iota
	takes         // of Mprobe: one message is for one caller
)

// probeList are the callers that wait for a message with the arguments of one queue, the longest first.
type probeList struct{ head, tail *waiter }

// watch puts a caller into the queue of its arguments.
func (t *table) watch(w *waiter) {
	q := t.get(makeKey(w.ctx, int(w.src), w.tag), classOf(int(w.src), w.tag))
	t.probes++
	t.probing[q.class]++
	w.queue = q
	l := &q.probes[w.to]
	if w.fellow.prev = l.tail; l.tail != nil {
		l.tail.fellow.next = w
	} else {
		l.head = w
	}
	l.tail = w
}

// unwatch takes it out, if it is in one.
func (t *table) unwatch(w *waiter) {
	q := w.queue
	if q == nil {
		return
	}
	t.probes--
	t.probing[q.class]--
	l := &q.probes[w.to]
	if w.fellow.prev != nil {
		w.fellow.prev.fellow.next = w.fellow.next
	} else {
		l.head = w.fellow.next
	}
	if w.fellow.next != nil {
		w.fellow.next.fellow.prev = w.fellow.prev
	} else {
		l.tail = w.fellow.prev
	}
	w.queue, w.fellow = nil, waiterLink{}
}

// endProbe ends a caller's wait for a message.
func (e *Engine) endProbe(w *waiter, err error) {
	e.table.unwatch(w)
	w.err = err
	e.satisfy(w)
}

// tellProbes wakes the probes that a message fits: all those that only look at it, and one of those
// that take it.
func (e *Engine) tellProbes(m *message) {
	t, taken := &e.table, false
	for c := range classes {
		if t.probing[c] == 0 {
			continue
		}
		q := t.find(classKey(c, m.h.Ctx, m.src, m.h.Tag))
		if q == nil {
			continue
		}
		for q.probes[looks].head != nil {
			t.steps++
			e.endProbe(q.probes[looks].head, nil)
		}
		if w := q.probes[takes].head; w != nil && !taken {
			taken = true
			e.endProbe(w, nil)
		}
	}
}

// passProbe wakes another caller for the message that this one was woken for and does not take.
func (e *Engine) passProbe(src int, ctx uint64, tag int32) {
	if m := e.table.first(ctx, src, tag); m != nil && e.table.probes != 0 {
		e.tellProbes(m)
	}
}
