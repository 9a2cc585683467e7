package mpi

import (
	"context"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Requests that are no single message, and further ways to wait. All are Requests: Waitall and its like mix them.

// couple is a send and a receive under one request.
type couple struct {
	plan   engine.Plan
	rounds [1]engine.Round
	parts  [2]engine.Part
	c      *Comm
	dst    int
	src    int
}

// String describes it for whoever asks what a rank waits for.
func (p *couple) String() string {
	return fmt.Sprintf("Isendrecv(destination %s, source %s) on %s", rankName(p.dst), rankName(p.src), p.c.path)
}

// Isendrecv begins Sendrecv. Both buffers belong to the library until the request completes. The status is that of
// the receive. Errors: as Isend and Irecv, ErrBuffer. (MPI-4.1, chapter 3.10)
func Isendrecv[S, R any](c *Comm, send []S, dst, stag int, recv []R, src, rtag int) (Request, error) {
	st, err := elem[S]()
	rt, rerr := elem[R]()
	sp, rp := bytesOf(send), bytesOf(recv)
	if err = first(err, rerr); err == nil && overlap(sp, rp) {
		err = fmt.Errorf("%w: Isendrecv needs two", ErrBuffer)
	}
	return c.isendrecv(st, rt, err, sp, dst, stag, rp, src, rtag)
}

func (c *Comm) isendrecv(st, rt *engine.Type, err error, sp []byte, dst, stag int, rp []byte, src, rtag int) (Request, error) {
	if err = first(err, c.checkRecv(src, rtag)); err != nil {
		return Request{}, c.failPeer("Isendrecv", "source", src, rtag, err)
	}
	if err := c.checkSend(dst, stag); err != nil {
		return Request{}, c.failPeer("Isendrecv", "destination", dst, stag, err)
	}
	to, from, peer := dst, src, src
	if dst != ProcNull {
		to = c.toWorld(dst)
	}
	switch {
	case src != ProcNull:
		from = c.source(src)
	case dst == ProcNull:
		return c.refused(opIsendrecv, ProcNull, rtag, nil)
	default:
		peer = dst
	}
	p := &couple{c: c, dst: dst, src: src}
	p.parts = [2]engine.Part{
		{Peer: from, Recv: true, Tag: int32(rtag), Type: rt, Buf: rp},
		{Peer: to, Tag: int32(stag), Type: st, Buf: sp},
	}
	p.rounds[0].Parts = p.parts[:]
	p.plan.Ctx, p.plan.Rounds, p.plan.Apart, p.plan.What = c.ctx, p.rounds[:], true, p
	r, err := c.env.eng.Begin(&p.plan)
	if err != nil {
		return c.refused(opIsendrecv, src, rtag, err)
	}
	r.Note = note(opIsendrecv, rt)
	return Request{r, c, int32(peer), int32(rtag)}, nil
}

// composedOutcome is outcome for requests that are no single receive.
func (r *Request) composedOutcome(s engine.Status) Status {
	switch {
	case r.op() == opGeneralised:
		return Status{Source: s.Source, Tag: s.Tag, Bytes: s.Bytes, Count: int(int32(s.Type))}
	case s.Source == ProcNull:
		return nullStatus
	case r.op() == opPrecv:
		s.Tag = int(r.tag)
	}
	return r.c.status(s, r.size(s.Type))
}

// Rsend is Send. MPI's ready mode promises that the receive is posted already. Here nothing is to be gained by
// that. Errors: as Send. (MPI-4.1, chapter 3.4)
func Rsend[T any](c *Comm, buf []T, dst, tag int) error { return Send(c, buf, dst, tag) }

// Bsend sends a copy of buf, and returns at once, whether or not it is received: buf belongs to the caller again.
// There is no buffer to attach. What is not yet sent takes memory, and Finalize waits for it. Errors: ErrRank, ErrTag,
// ErrType, ErrComm. (MPI-4.1, chapter 3.4)
func Bsend[T any](c *Comm, buf []T, dst, tag int) error {
	_, err := bsend("Bsend", c, buf, dst, tag)
	return err
}

// Ibsend is Bsend with a request, which is complete at once. Errors: as Bsend. (MPI-4.1, chapter 3.7.2)
func Ibsend[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	return bsend("Ibsend", c, buf, dst, tag)
}

func bsend[T any](call string, c *Comm, buf []T, dst, tag int) (Request, error) {
	t, err := elem[T]()
	if err == nil {
		err = c.checkSend(dst, tag)
	}
	if err == nil && dst != ProcNull {
		err = c.bsendIn(c.ctx, t, bytesOf(buf), dst, tag)
	}
	if err != nil {
		return Request{}, c.failPeer(call, "destination", dst, tag, err)
	}
	return Request{engine.Request{Note: uint32(opIbsend)}, c, ProcNull, int32(tag)}, nil
}

// bsendIn sends a copy of p in a context. The rank takes care of it until it is sent.
func (c *Comm) bsendIn(ctx uint64, t *engine.Type, p []byte, dst, tag int) error {
	s := borrow(len(p))
	copied := s.bytes(len(p))
	copy(copied, p)
	r, err := c.env.eng.Isend(c.toWorld(dst), ctx, int32(tag), t, copied, engine.Standard)
	if err != nil {
		s.giveBack()
		return err
	}
	c.env.buffered.add(c.env.eng, r, s)
	return nil
}

// Done returns a channel that is closed when the request is complete, or if the job is aborted. It does not end the request: Wait or Test does.
// The engine goes on with it even if no goroutine of the program is in a call. Another call with the same
// request returns the same channel, or one that is closed. (MPI-4.1, chapter 3.7.6)
func (r Request) Done() <-chan struct{} {
	if _, ok := r.idle(); ok {
		return completed
	}
	return r.c.env.eng.Notify(r.r)
}

var completed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// WaitContext is Wait until ctx is done. Then it returns ErrDeadline, which wraps ctx's error, and the request is
// still active. A nil ctx is never done. Errors: as Wait. (MPI-4.1, chapter 3.7.3)
func (r Request) WaitContext(ctx context.Context) (Status, error) {
	if st, ok := r.idle(); ok {
		return st, nil
	}
	if ctx == nil || ctx.Done() == nil {
		return r.end("WaitContext")
	}
	if outer := r.c.ctxt; outer != nil { // of a view: whichever ends first
		both, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })()
		ctx = both
	}
	v := engine.NewView(ctx, r.c.env.eng)
	defer v.Stop()
	s, err := r.c.env.eng.Wait(r.r, v)
	if err != nil {
		return r.failed("WaitContext", s, err)
	}
	return r.outcome(s), nil
}

// NewRequest makes a generalised request: one that the program completes itself, by calling complete once, from any
// goroutine. Wait returns the status and the error given there; the status's Count is one of 32 bits. So what is no
// message, such as work of another goroutine, is waited for together with messages. A native image that is made while
// the request is active holds it as any other. Errors: ErrComm; complete returns ErrRequest when called again. (MPI-4.1,
// chapter 13.2)
func NewRequest(c *Comm) (r Request, complete func(Status, error) error, err error) {
	if err := c.ready(); err != nil {
		return Request{}, nil, c.fail("NewRequest", err)
	}
	h, err := c.env.eng.Pledge()
	if err != nil {
		return Request{}, nil, c.fail("NewRequest", err)
	}
	h.Note = uint32(opGeneralised)
	r = Request{h, c, Undefined, 0}
	return r, func(s Status, err error) error {
		ferr := c.env.eng.Fulfil(h, engine.Status{Source: s.Source, Tag: s.Tag, Bytes: s.Bytes, Type: uint32(s.Count)}, err)
		if ferr != nil {
			return c.fail("complete of NewRequest", ferr)
		}
		return nil
	}, nil
}

// RequestOf makes a request of something else that ends, such as an Event of package device: op calls the function that it is given once, when it is
// over. Wait returns the error given there. As with any request, it must be ended before a Point. Errors: ErrComm; ErrRequest if op is nil. (MPI-4.1, chapter 13.2)
func RequestOf(c *Comm, op interface{ OnDone(func(error)) }) (Request, error) {
	if op == nil {
		return Request{}, c.fail("RequestOf", fmt.Errorf("%w: what is to end is nil", ErrRequest))
	}
	r, complete, err := NewRequest(c)
	if err != nil {
		return Request{}, err
	}
	op.OnDone(func(err error) {
		_ = complete(Status{}, err) // once, and so it cannot fail
	})
	return r, nil
}
