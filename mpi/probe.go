package mpi

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Message is a message that a matched probe has taken out of the queue. Only Mrecv or Imrecv can receive it,
// from any goroutine, and one of them must. (MPI-4.1, chapter 3.8.2)
type Message struct {
	m      engine.Message
	c      *Comm
	status Status
	null   bool // from ProcNull
}

// Probe waits until a message of src (or AnySource) with tag (or AnyTag) can be received. It returns its
// sender, tag and length. Errors: ErrRank, ErrTag, ErrComm, ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter
// 3.8.1)
func (c *Comm) Probe(src, tag int) (Status, error) {
	if err := c.checkRecv(src, tag); err != nil {
		return Status{}, c.failPeer("Probe", "source", src, tag, err)
	}
	if src == ProcNull {
		return nullStatus, nil
	}
	s, err := c.env.eng.Probe(c.source(src), c.ctx, int32(tag), c.view)
	if err != nil {
		return Status{}, c.failPeer("Probe", "source", src, tag, err)
	}
	return c.status(s, 0), nil
}

// Iprobe is Probe without waiting: ok tells whether there is a message. Errors: as Probe, without ErrDeadline.
// (MPI-4.1, chapter 3.8.1)
func (c *Comm) Iprobe(src, tag int) (status Status, ok bool, err error) {
	if err := c.checkRecv(src, tag); err != nil {
		return Status{}, false, c.failPeer("Iprobe", "source", src, tag, err)
	}
	if src == ProcNull {
		return nullStatus, true, nil
	}
	s, ok, err := c.env.eng.Iprobe(c.source(src), c.ctx, int32(tag))
	if err != nil {
		return Status{}, false, c.failPeer("Iprobe", "source", src, tag, err)
	}
	if !ok {
		return Status{}, false, nil
	}
	return c.status(s, 0), true, nil
}

// Mprobe waits like Probe and takes the message, so no other receive can take it between the probe and the
// receive. Errors: as Probe. (MPI-4.1, chapter 3.8.2)
func (c *Comm) Mprobe(src, tag int) (Message, Status, error) {
	return c.mprobe("Mprobe", src, tag)
}

func (c *Comm) mprobe(call string, src, tag int) (Message, Status, error) {
	if err := c.checkRecv(src, tag); err != nil {
		return Message{}, Status{}, c.failPeer(call, "source", src, tag, err)
	}
	if src == ProcNull {
		return Message{c: c, null: true, status: nullStatus}, nullStatus, nil
	}
	m, s, err := c.env.eng.Mprobe(c.source(src), c.ctx, int32(tag), c.view)
	if err != nil {
		return Message{}, Status{}, c.failPeer(call, "source", src, tag, err)
	}
	st := c.status(s, 0)
	return Message{m: m, c: c, status: st}, st, nil
}

// Improbe is Mprobe without waiting. Errors: as Iprobe. (MPI-4.1, chapter 3.8.2)
func (c *Comm) Improbe(src, tag int) (message Message, status Status, ok bool, err error) {
	if err := c.checkRecv(src, tag); err != nil {
		return Message{}, Status{}, false, c.failPeer("Improbe", "source", src, tag, err)
	}
	if src == ProcNull {
		return Message{c: c, null: true, status: nullStatus}, nullStatus, true, nil
	}
	m, s, ok, err := c.env.eng.Improbe(c.source(src), c.ctx, int32(tag))
	if err != nil {
		return Message{}, Status{}, false, c.failPeer("Improbe", "source", src, tag, err)
	}
	if !ok {
		return Message{}, Status{}, false, nil
	}
	st := c.status(s, 0)
	return Message{m: m, c: c, status: st}, st, true, nil
}

// Mrecv receives a message that a matched probe has taken. Errors: ErrTruncate,
// ErrType, ErrPeerFailed, ErrRequest if the message was received before.
// (MPI-4.1, chapter 3.8.3)
func Mrecv[T any](m Message, buf []T) (Status, error) {
	t, err := elem[T]()
	return m.mrecv(opMrecv, t, err, bytesOf(buf))
}

// mrecv waits for the end, even if the context of the probe's view is done: the message is on its way, and p
// belongs to the caller again when mrecv returns.
func (m Message) mrecv(op operation, t *engine.Type, err error, p []byte) (Status, error) {
	r, err := m.imrecv(op, t, err, p)
	if err != nil {
		return Status{}, err
	}
	if st, ok := r.idle(); ok {
		return st, nil
	}
	s, err := r.c.env.eng.Wait(r.r, nil)
	if err != nil {
		return r.outcomeOf(s, err), r.c.failPeer(operations[op], op.role(), int(r.peer), int(r.tag), err)
	}
	return r.outcome(s), nil
}

// Imrecv begins to receive a message that a matched probe has taken. buf belongs to the library until the
// request completes. Errors: as Mrecv. (MPI-4.1, chapter 3.8.3)
func Imrecv[T any](m Message, buf []T) (Request, error) {
	t, err := elem[T]()
	return m.imrecv(opImrecv, t, err, bytesOf(buf))
}

func (m Message) imrecv(op operation, t *engine.Type, err error, p []byte) (Request, error) {
	if err == nil && m.c == nil {
		err = fmt.Errorf("%w: no message: use what Mprobe or Improbe returned", ErrRequest)
	}
	if err == nil && m.null {
		return Request{c: m.c, peer: ProcNull, tag: AnyTag}, nil
	}
	var r engine.Request
	if err == nil {
		r, err = m.c.env.eng.Imrecv(m.m, t, p)
	}
	if err != nil {
		return Request{}, m.c.failPeer(operations[op], "source", m.status.Source, m.status.Tag, err)
	}
	r.Note = note(op, t)
	return Request{r, m.c, int32(m.status.Source), int32(m.status.Tag)}, nil
}

// RecvAlloc receives a message of any length into a slice that it allocates. Errors: as Recv except
// ErrTruncate; ErrType also if the length is no whole number of elements. (MPI-4.1, chapter 3.8.3)
func RecvAlloc[T any](c *Comm, src, tag int) ([]T, Status, error) {
	t, err := elem[T]()
	if err != nil {
		return nil, Status{}, c.failPeer("RecvAlloc", "source", src, tag, err)
	}
	m, st, err := c.mprobe("RecvAlloc", src, tag)
	if err != nil {
		return nil, st, err
	}
	buf := make([]T, st.Bytes/t.Size)
	if st, err = m.mrecv(opRecvAlloc, t, nil, bytesOf(buf)); err != nil {
		return nil, st, err
	}
	return buf, st, nil
}
