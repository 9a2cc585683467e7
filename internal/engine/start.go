package engine

import "fmt"

// Starts is a row of sends and receives that enters the engine once. Between BeginStarts and End the engine's lock is held:
// the caller must be short and must not call the engine otherwise. (MPI-4.1 chapter 3.9)
type Starts struct{ e *Engine }

// BeginStarts begins a row.
func (e *Engine) BeginStarts() Starts {
	e.enter()
	return Starts{e}
}

// End ends the row.
func (s Starts) End() { s.e.leave() }

// again returns an error if the request of the last start was not ended.
func (h Request) again() error {
	if h.r != nil && h.r.gen == h.gen && h.r.phase != phaseFree {
		return fmt.Errorf("%w: it was started and has not ended", ErrRequest)
	}
	return nil
}

// Send begins a send whose last request was h. Errors: as Isend, and ErrRequest if that request was not ended.
func (s Starts) Send(h Request, dst int, ctx uint64, tag int32, t *Type, p []byte, mode SendMode) (Request, error) {
	e := s.e
	if err := h.again(); err != nil {
		return h, err
	}
	r := e.freeRequests
	e.takeRequest(r)
	if mode == Standard && e.sendAtOnce(dst, ctx, tag, t, p) {
		r.was(dst, ctx, tag, len(p))
	} else if err := e.checkSend(dst, ctx, tag); err != nil {
		e.freeRequest(r)
		return h, err
	} else {
		r.is(dst, ctx, tag, t, p)
		e.startSend(r, mode)
	}
	return r.handle(), nil
}

// Recv begins a receive whose last request was h. Errors: as Irecv, and ErrRequest if that request was not ended.
func (s Starts) Recv(h Request, src int, ctx uint64, tag int32, t *Type, p []byte) (Request, error) {
	e := s.e
	if err := h.again(); err != nil {
		return h, err
	}
	r := e.freeRequests
	e.takeRequest(r)
	r.is(src, ctx, tag, t, p)
	if e.plainRecv(src, tag) && e.table.kept == 0 {
		e.postRecv(r)
	} else if err := e.checkRecv(src, ctx, tag); err != nil {
		e.freeRequest(r)
		return h, err
	} else {
		e.startRecv(r)
	}
	return r.handle(), nil
}
