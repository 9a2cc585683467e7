package engine

import "fmt"

// Standing is a message that is begun again and again with the same arguments: persistent communication. The caller changes
// nothing of it while it is under way. (MPI-4.1 chapter 3.9)
type Standing struct {
	Peer int
	Ctx  uint64
	Tag  int32
	Recv bool
	Mode SendMode // of a send
	Type *Type
	Buf  []byte
	Note uint32 // of each request

	last *request // of the last start. These two are no Request: what is stored in parts is loaded slowly as a whole
	gen  uint32
}

// Last is the request of the last start.
func (m *Standing) Last() Request { return Request{r: m.last, gen: m.gen, Note: m.Note} }

// Starts is a row of starts that enters the engine once. Between BeginStarts and End the engine's lock is held: the caller
// must be short and must not call the engine otherwise.
type Starts struct{ e *Engine }

// BeginStarts begins a row.
func (e *Engine) BeginStarts() Starts {
	e.mu.lock()
	return Starts{e}
}

// Again begins m once more. Errors: as Isend and Irecv, and ErrRequest if the last request was not ended.
func (s Starts) Again(m *Standing) (_ Request, err error) {
	e := s.e
	e.back.ticks.Calls++
	if last := m.last; last != nil && last.gen == m.gen && last.phase != phaseFree {
		return Request{}, m.Last().again()
	}
	r := e.freeRequests
	e.takeRequest(r)
	if m.Recv {
		err = e.startAsRecv(r, m)
	} else {
		err = e.startAsSend(r, m)
	}
	if err != nil {
		e.freeRequest(r)
		return Request{}, err
	}
	if m.gen = r.gen; m.last != r {
		m.last = r
	}
	return Request{r: r, gen: r.gen, Note: m.Note}, nil
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

func (e *Engine) startAsSend(r *request, m *Standing) error {
	if m.Mode == Standard && e.sendAtOnce(m.Peer, m.Ctx, m.Tag, m.Type, m.Buf) {
		r.was(m.Peer, m.Ctx, m.Tag, len(m.Buf))
		return nil
	}
	if err := e.checkSend(m.Peer, m.Ctx, m.Tag); err != nil {
		return err
	}
	r.is(m.Peer, m.Ctx, m.Tag, m.Type, m.Buf)
	e.startSend(r, m.Mode)
	return nil
}

func (e *Engine) startAsRecv(r *request, m *Standing) error {
	r.is(m.Peer, m.Ctx, m.Tag, m.Type, m.Buf)
	if e.plainRecv(m.Peer, m.Tag) && e.table.kept == 0 {
		e.postRecv(r)
		return nil
	}
	err := e.checkRecv(m.Peer, m.Ctx, m.Tag)
	if err == nil {
		e.startRecv(r)
	}
	return err
}
