package mpi

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Persistent is a call whose arguments are fixed, and which is started again and again. Its buffers belong to the library
// from Start until the request that Start returns has completed; between, the program reads and writes them. One goroutine at
// a time may use a Persistent.
//
// One that is idle is memory: a native image holds it. A program that goes on from a portable image makes it again, by
// the same calls. (MPI-4.1, chapter 3.9)
type Persistent struct {
	c     *Comm
	op    operation
	peer  int32
	tag   int32
	eng   *engine.Engine  // of a message that it begins as it is; else nil
	m     engine.Standing // of a message
	f     startable       // of all that is more; else nil
	freed bool
}

var (
	errUnmade = fmt.Errorf("%w: it is nil, or was not made by an Init call", ErrRequest)
	errFreed  = fmt.Errorf("%w: it was freed", ErrRequest)
	errActive = fmt.Errorf("%w: it was started and has not ended", ErrRequest)
)

// startable is a persistent call that is more than a message.
type startable interface {
	start() (Request, error)
	last() engine.Request // of the last start
	release()             // gives its memory back
}

// SendInit makes a persistent Send of buf. Errors: as Isend. (MPI-4.1, chapter 3.9)
func SendInit[T any](c *Comm, buf []T, dst, tag int) (*Persistent, error) {
	t, err := elem[T]()
	return c.sendInit("SendInit", opIsend, t, err, bytesOf(buf), dst, tag)
}

// SsendInit makes a persistent Ssend of buf. Errors: as Isend. (MPI-4.1, chapter 3.9)
func SsendInit[T any](c *Comm, buf []T, dst, tag int) (*Persistent, error) {
	t, err := elem[T]()
	return c.sendInit("SsendInit", opIssend, t, err, bytesOf(buf), dst, tag)
}

// RsendInit is SendInit; see Rsend. Errors: as Isend. (MPI-4.1, chapter 3.9)
func RsendInit[T any](c *Comm, buf []T, dst, tag int) (*Persistent, error) {
	t, err := elem[T]()
	return c.sendInit("RsendInit", opIsend, t, err, bytesOf(buf), dst, tag)
}

// BsendInit makes a persistent Bsend: each start copies buf. Errors: as Isend. (MPI-4.1, chapter 3.9)
func BsendInit[T any](c *Comm, buf []T, dst, tag int) (*Persistent, error) {
	t, err := elem[T]()
	return c.sendInit("BsendInit", opIbsend, t, err, bytesOf(buf), dst, tag)
}

func (c *Comm) sendInit(call string, op operation, t *engine.Type, err error, p []byte, dst, tag int) (*Persistent, error) {
	if err = first(err, c.checkSend(dst, tag)); err != nil {
		return nil, c.failPeer(call, "destination", dst, tag, err)
	}
	return c.persistent(op, t, p, dst, tag), nil
}

// RecvInit makes a persistent Recv into buf. Errors: as Irecv. (MPI-4.1, chapter 3.9)
func RecvInit[T any](c *Comm, buf []T, src, tag int) (*Persistent, error) {
	t, err := elem[T]()
	if err = first(err, c.checkRecv(src, tag)); err != nil {
		return nil, c.failPeer("RecvInit", "source", src, tag, err)
	}
	return c.persistent(opIrecv, t, bytesOf(buf), src, tag), nil
}

func (c *Comm) persistent(op operation, t *engine.Type, p []byte, peer, tag int) *Persistent {
	x := &Persistent{c: c, op: op, peer: int32(peer), tag: int32(tag)}
	x.m = engine.Standing{Peer: peer, Ctx: c.ctx, Tag: int32(tag), Recv: op.receives(), Mode: op.mode(), Type: t, Buf: p, Note: note(op, t)}
	if peer != ProcNull {
		x.m.Peer = c.source(peer)
		if op != opIbsend {
			x.eng = c.eng
		}
	}
	return x
}

// Start begins the call once more. It does not wait. Collectives that were made on one communicator may be started
// in any order, which need not be the same on all ranks. Errors: ErrRequest if the request of the last start has not been
// ended or p was freed, ErrComm, ErrPoisoned, ErrPeerFailed. (MPI-4.1, chapter 3.9)
func (p *Persistent) Start() (Request, error) {
	if p == nil || p.eng == nil {
		return p.startOdd()
	}
	if !p.able() {
		return Request{}, p.unready()
	}
	s := p.eng.BeginStarts()
	r, err := s.Again(&p.m)
	s.End()
	if err != nil {
		_, err = p.c.refused(p.op, int(p.peer), int(p.tag), err)
		return Request{}, called("Start", err)
	}
	return Request{r, p.c, p.peer, p.tag}, nil
}

// startOdd is Start of what is not a plain message.
func (p *Persistent) startOdd() (Request, error) {
	switch {
	case !p.able():
		return Request{}, p.unready()
	case p.f != nil:
		return p.f.start()
	case p.peer == ProcNull:
		return p.c.refused(p.op, ProcNull, int(p.tag), nil)
	}
	if err := p.c.bsendIn(p.c.ctx, p.m.Type, p.m.Buf, int(p.peer), int(p.tag)); err != nil {
		return p.c.refused(p.op, int(p.peer), int(p.tag), err)
	}
	return Request{engine.Request{Note: uint32(opIbsend)}, p.c, ProcNull, p.tag}, nil
}

// made reports whether one of the ...Init calls has made p.
func (p *Persistent) made() bool { return p != nil && p.c != nil }

func (p *Persistent) able() bool {
	return p.made() && !p.freed && !p.c.freed.Load() && !p.c.env.ended.Load()
}

// unready says why p cannot be started.
func (p *Persistent) unready() error {
	switch {
	case !p.made():
		return (*Comm)(nil).fail("Start", errUnmade)
	case p.freed:
		return p.c.fail("Start", errFreed)
	}
	return p.c.fail("Start", p.c.ready())
}

// Free gives p up. Its memory is the library's no more. A nil or zero p is no error. Errors: ErrRequest if the request of
// the last start has not been ended, or p was freed before. (MPI-4.1, chapter 3.9)
func (p *Persistent) Free() error {
	if !p.made() {
		return nil
	}
	if p.freed {
		return p.c.fail("Free", errFreed)
	}
	last := p.m.Last()
	if p.f != nil {
		last = p.f.last()
	}
	if p.c.env.eng.Lives(last) {
		return p.c.fail("Free", errActive)
	}
	p.freed = true
	if p.f != nil {
		p.f.release()
	}
	return nil
}

// Startall starts all ps, in their order, and stores their requests in rs, which is as long. At the first error it
// stops; the requests before it are active. Errors: the RequestError of that one, as Start; ErrCount. (MPI-4.1, chapter 3.9)
func Startall(ps []*Persistent, rs []Request) error {
	if len(ps) != len(rs) {
		return (*Comm)(nil).fail("Startall", fmt.Errorf("%w: %d requests for %d operations", ErrCount, len(rs), len(ps)))
	}
	for i := 0; i < len(ps); i++ {
		n, err := startRow(ps[i:], rs[i:])
		if i += n; err == nil && i == len(ps) {
			return nil
		}
		var r Request
		if err == nil {
			r, err = ps[i].Start()
		}
		if err != nil {
			return &RequestError{i, err}
		}
		rs[i] = r
	}
	return nil
}

// startRow starts messages of one rank, up to the first operation that is something else. It returns how many it has started.
func startRow(ps []*Persistent, rs []Request) (int, error) {
	if ps[0] == nil || ps[0].eng == nil {
		return 0, nil
	}
	e := ps[0].eng
	s := e.BeginStarts()
	for i, p := range ps {
		if p == nil || p.eng != e || !p.able() {
			s.End()
			return i, nil
		}
		r, err := s.Again(&p.m)
		if err != nil {
			s.End()
			_, err = p.c.refused(p.op, int(p.peer), int(p.tag), err)
			return i, err
		}
		x := &rs[i]
		x.r, x.c, x.peer, x.tag = r, p.c, p.peer, p.tag
	}
	s.End()
	return len(ps), nil
}
