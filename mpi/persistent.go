package mpi

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/engine"
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
	world int // peer, for the engine
	typ   *engine.Type
	buf   []byte
	f     startable      // nil: a message that lies in a row
	last  engine.Request // of the last start
	freed bool
	note  uint32
}

var (
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
	world := peer
	if peer != ProcNull {
		world = c.source(peer)
	}
	return &Persistent{c: c, op: op, note: note(op, t), typ: t, buf: p, peer: int32(peer), tag: int32(tag), world: world}
}

// Start begins the call once more. It does not wait. Collectives that were made on one communicator may be started
// in any order, which need not be the same on all ranks. Errors: ErrRequest if the request of the last start has not been
// ended or p was freed, ErrComm, ErrPoisoned, ErrPeerFailed. (MPI-4.1, chapter 3.9)
func (p *Persistent) Start() (Request, error) {
	if !p.able() {
		return Request{}, p.unready()
	}
	switch {
	case p.f != nil:
		return p.f.start()
	case p.peer == ProcNull:
		return p.c.refused(p.op, ProcNull, int(p.tag), nil)
	case p.op == opIbsend:
		if err := p.c.bsendIn(p.c.ctx, p.typ, p.buf, int(p.peer), int(p.tag)); err != nil {
			return p.c.refused(p.op, int(p.peer), int(p.tag), err)
		}
		return Request{engine.Request{Note: uint32(opIbsend)}, p.c, ProcNull, p.tag}, nil
	}
	s := p.c.env.eng.BeginStarts()
	r, err := p.startIn(s)
	s.End()
	if err != nil {
		return p.c.refused(p.op, int(p.peer), int(p.tag), err)
	}
	return r, nil
}

func (p *Persistent) able() bool {
	return p != nil && !p.freed && !p.c.freed.Load() && !p.c.env.ended.Load()
}

// plain reports whether a start is that of a message.
func (p *Persistent) plain() bool {
	return p.f == nil && p.peer != ProcNull && p.op != opIbsend
}

// startIn is Start of a message in a row of starts.
func (p *Persistent) startIn(s engine.Starts) (Request, error) {
	var err error
	if p.op.receives() {
		p.last, err = s.Recv(p.last, p.world, p.c.ctx, p.tag, p.typ, p.buf)
	} else {
		p.last, err = s.Send(p.last, p.world, p.c.ctx, p.tag, p.typ, p.buf, p.op.mode())
	}
	r := Request{p.last, p.c, p.peer, p.tag}
	r.r.Note = p.note
	return r, err
}

// unready says why p cannot be started.
func (p *Persistent) unready() error {
	switch {
	case p == nil:
		return &Error{Call: "Start", Err: fmt.Errorf("%w: it is nil", ErrRequest)}
	case p.freed:
		return p.c.fail("Start", errFreed)
	}
	return p.c.fail("Start", p.c.ready())
}

// Free gives p up. Its memory is the library's no more. A nil p is no error. Errors: ErrRequest if the request of the last start
// has not been ended, or p was freed before. (MPI-4.1, chapter 3.9)
func (p *Persistent) Free() error {
	if p == nil {
		return nil
	}
	if p.freed {
		return p.c.fail("Free", errFreed)
	}
	last := p.last
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
// returns that error with the index; the requests before it are active. Errors: as Start, ErrCount. (MPI-4.1, chapter 3.9)
func Startall(ps []*Persistent, rs []Request) error {
	if len(ps) != len(rs) {
		return &Error{Call: "Startall", Err: fmt.Errorf("%w: %d requests for %d operations", ErrCount, len(rs), len(ps))}
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
			return fmt.Errorf("operation %d: %w", i, err)
		}
		rs[i] = r
	}
	return nil
}

// startRow starts messages of one rank, up to the first operation that is something else. It returns how many it has started.
func startRow(ps []*Persistent, rs []Request) (int, error) {
	if !ps[0].able() || !ps[0].plain() {
		return 0, nil
	}
	e := ps[0].c.env
	s := e.eng.BeginStarts()
	i := 0
	var err error
	for ; i < len(ps) && ps[i].able() && ps[i].plain() && ps[i].c.env == e; i++ {
		if rs[i], err = ps[i].startIn(s); err != nil {
			rs[i] = Request{}
			break
		}
	}
	s.End()
	if err != nil {
		p := ps[i]
		_, err = p.c.refused(p.op, int(p.peer), int(p.tag), err)
	}
	return i, err
}
