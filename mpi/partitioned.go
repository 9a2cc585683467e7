package mpi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Partitioned is a message that is sent and received in parts, each when it is ready: by several goroutines, for
// example, of which each computes a part of a field. Any number of goroutines may call Ready and Arrived at once.
//
// The k-th PsendInit to a rank with a tag goes with that rank's k-th PrecvInit from this one with that tag. Both
// have the same number of elements. The number of parts may differ: the sender tells its own. Each pair has a context
// of its own:
//
//	tag 0     at PsendInit: parts, elements, as u64s
//	tag 1+i   part i of the sender
//
// The buffer belongs to the library from Start until the request has completed. A sender may still write a part until
// it is Ready, and a receiver may read a part when it has Arrived. (MPI-4.1, chapter 4)
type Partitioned struct {
	c     *Comm
	op    operation
	peer  int
	tag   int
	ctx   uint64
	typ   *engine.Type
	n     int // elements
	parts int // as this rank has asked for
	buf   []byte
	plan  engine.Plan
	told  [2]uint64 // receive: the sender's parts and elements
	data  int       // receive: the round of the parts; 0 once the sender's are known
	last  engine.Request
	freed bool
}

// pairs counts the partitioned messages that were made on a communicator.
type pairs struct {
	mu   sync.Mutex
	made map[pairing]uint64
}

type pairing struct {
	src, dst, tag int
	recv          bool // made by the receiver; the context does not depend on it
}

// nextPart returns the context of the next message of a pair of ranks.
func (c *core) nextPart(x pairing) uint64 {
	p := &c.pairs
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made == nil {
		p.made = map[pairing]uint64{}
	}
	p.made[x]++
	return contextOf(c.ctx, p.made[x], fmt.Sprintf("partitioned from %d to %d, tag %d", x.src, x.dst, x.tag))
}

// PsendInit makes a partitioned send of buf, in so many parts of equal length. It does not wait. Errors: ErrRank, ErrTag, ErrType,
// ErrComm; ErrCount if buf cannot be divided so. (MPI-4.1, chapter 4.2.1)
func PsendInit[T any](c *Comm, buf []T, parts, dst, tag int) (*Partitioned, error) {
	t, err := elem[T]()
	p, err := c.partitioned("PsendInit", opPsend, t, err, bytesOf(buf), len(buf), parts, dst, tag)
	if err != nil {
		return nil, c.failPeer("PsendInit", "destination", dst, tag, err)
	}
	return p, nil
}

// PrecvInit makes a partitioned receive into buf. The sender may have another number of parts. It does not wait.
// Errors: as PsendInit; src is a rank, and tag a tag. With the request of a start: ErrCount if the sender has another
// number of elements, ErrType, ErrPeerFailed. After ErrCount the message is given up on both sides: calls and requests of the sender
// return ErrPoisoned, and so do further starts. (MPI-4.1, chapter 4.2.1)
func PrecvInit[T any](c *Comm, buf []T, parts, src, tag int) (*Partitioned, error) {
	t, err := elem[T]()
	p, err := c.partitioned("PrecvInit", opPrecv, t, err, bytesOf(buf), len(buf), parts, src, tag)
	if err != nil {
		return nil, c.failPeer("PrecvInit", "source", src, tag, err)
	}
	return p, nil
}

func (c *Comm) partitioned(call string, op operation, t *engine.Type, err error, buf []byte, n, parts, peer, tag int) (*Partitioned, error) {
	if err = first(c.checkSend(peer, tag), err); err != nil {
		return nil, err
	}
	if parts < 1 || n%parts != 0 {
		return nil, fmt.Errorf("%w: %d elements in %d parts", ErrCount, n, parts)
	}
	p := &Partitioned{c: c, op: op, peer: peer, tag: tag, typ: t, n: n, parts: parts, buf: buf}
	if peer == ProcNull {
		return p, nil
	}
	pair := pairing{c.rank, peer, tag, false}
	if op == opPrecv {
		pair = pairing{peer, c.rank, tag, true}
	}
	p.ctx = c.nextPart(pair)
	c.env.job.RegisterContext(p.ctx, c.path)
	p.plan.Ctx, p.plan.What = p.ctx, what(p.name)
	if op == opPrecv {
		p.data = 1
		p.plan.Do = func(int) error { return p.hear() }
		p.plan.Rounds = []engine.Round{{Parts: []engine.Part{{Peer: c.toWorld(peer), Recv: true, Exact: true,
			Type: &basics[reflect.Uint64], Buf: bytesOf(p.told[:])}}, Do: true}, {}}
		return p, nil
	}
	p.plan.Rounds = []engine.Round{{Parts: p.pieces(parts)}}
	told := binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, uint64(parts)), uint64(n))
	return p, c.bsendIn(p.ctx, &basics[reflect.Uint64], told, peer, 0)
}

// pieces are the messages of the sender's parts.
func (p *Partitioned) pieces(parts int) []engine.Part {
	all, each := make([]engine.Part, parts), len(p.buf)/parts
	for i := range all {
		recv := p.op == opPrecv
		all[i] = engine.Part{Peer: p.c.toWorld(p.peer), Recv: recv, Exact: recv, Late: !recv,
			Tag: int32(1 + i), Type: p.typ, Buf: p.buf[i*each : (i+1)*each]}
	}
	return all
}

// hear takes what the sender has told of its parts.
func (p *Partitioned) hear() error {
	parts, n := p.told[0], p.told[1]
	if n != uint64(p.n) {
		err := fmt.Errorf("%w: the sender has %d elements, this rank %d", ErrCount, n, p.n)
		p.c.env.eng.Poison(p.ctx, []int{p.c.toWorld(p.peer)}, err) // its parts will never be received
		return err
	}
	p.plan.Rounds[1].Parts = p.pieces(int(parts))
	return nil
}

// what describes a plan for whoever asks what a rank waits for.
type what func() string

func (w what) String() string { return w() }

// made reports whether PsendInit or PrecvInit has made p.
func (p *Partitioned) made() bool { return p != nil && p.c != nil }

func (p *Partitioned) name() string {
	return fmt.Sprintf("%s(%s %s, tag %d, %d parts) on %s", operations[p.op], p.op.role(), rankName(p.peer), p.tag, p.parts, p.c.path)
}

// Start begins the message once more. It does not wait. Errors: ErrRequest if the request of the last start has not been ended
// or p was freed, ErrComm, ErrPeerFailed. (MPI-4.1, chapter 4.2.2)
func (p *Partitioned) Start() (Request, error) {
	if !p.made() {
		return Request{}, (*Comm)(nil).fail("Start", errUnmade)
	}
	if err := p.c.ready(); err != nil || p.freed {
		return Request{}, p.c.fail("Start", first(err, errFreed))
	}
	if p.peer == ProcNull {
		return p.c.refused(p.op, ProcNull, p.tag, nil)
	}
	if p.data == 1 && p.plan.Rounds[1].Parts != nil && !p.c.env.eng.Lives(p.last) {
		p.plan.Rounds, p.data = p.plan.Rounds[1:], 0 // the sender's parts are known
	}
	r, err := p.c.env.eng.Begin(&p.plan)
	if err != nil {
		return p.c.refused(p.op, p.peer, p.tag, err)
	}
	r.Note = note(p.op, p.typ)
	p.last = r
	return Request{r, p.c, int32(p.peer), int32(p.tag)}, nil
}

// Ready sends parts of a send that was started. Each is sent once in a start. Errors: ErrRequest if a part was Ready before, if
// p was not started, or is a receive; ErrCount if there is no such part. (MPI-4.1, chapter 4.2.2)
func (p *Partitioned) Ready(parts ...int) error {
	err := p.has(parts)
	if err == nil && p.op != opPsend {
		err = fmt.Errorf("%w: it is a receive", ErrRequest)
	}
	if err == nil && p.peer != ProcNull {
		err = p.c.env.eng.Release(p.last, parts...)
	}
	if err != nil {
		return p.fail("Ready", err)
	}
	return nil
}

// Arrived reports whether parts of a receive have arrived, all of those named. It makes progress. If p is not started, they
// have. Errors: ErrRequest if p is a send; ErrCount if there is no such part. (MPI-4.1, chapter 4.2.2)
func (p *Partitioned) Arrived(parts ...int) (bool, error) {
	err := p.has(parts)
	if err == nil && p.op != opPrecv {
		err = fmt.Errorf("%w: it is a send", ErrRequest)
	}
	if err != nil {
		return false, p.fail("Arrived", err)
	}
	e := p.c.env.eng
	if p.peer == ProcNull || !e.Lives(p.last) {
		return true, nil
	}
	known, err := e.Arrived(p.last, p.data) // then the number of the sender's parts is known
	if err == nil && known {
		known, err = e.Arrived(p.last, p.data, p.theirs(parts)...)
	}
	if errors.Is(err, ErrRequest) { // ended meanwhile
		return true, nil
	}
	if err != nil {
		return false, p.fail("Arrived", err)
	}
	return known, nil
}

// theirs are the parts of the sender that these parts of the receiver consist of.
func (p *Partitioned) theirs(parts []int) (all []int) {
	n := int(p.told[0])
	for _, i := range parts { // in units of 1/(n*p.parts) of the buffer
		for k := i * n / p.parts; k*p.parts < (i+1)*n; k++ {
			all = append(all, k)
		}
	}
	return all
}

// has returns ErrCount if a part does not exist.
func (p *Partitioned) has(parts []int) error {
	if !p.made() {
		return errUnmade
	}
	if p.freed {
		return errFreed
	}
	for _, i := range parts {
		if uint(i) >= uint(p.parts) {
			return fmt.Errorf("%w: part %d of %d", ErrCount, i, p.parts)
		}
	}
	return nil
}

func (p *Partitioned) fail(call string, err error) error {
	if !p.made() {
		return (*Comm)(nil).fail(call, err)
	}
	return p.c.failPeer(call+" of "+operations[p.op], p.op.role(), p.peer, p.tag, err)
}

// Free gives p up. A nil or zero p is no error. Errors: ErrRequest if the request of the last start has not been ended, or p
// was freed before. (MPI-4.1, chapter 4.2)
func (p *Partitioned) Free() error {
	switch {
	case !p.made():
		return nil
	case p.freed:
		return p.fail("Free", errFreed)
	case p.c.env.eng.Lives(p.last):
		return p.fail("Free", errActive)
	}
	if p.freed = true; p.peer != ProcNull {
		p.c.env.job.ReleaseContext(p.ctx)
		if p.op == opPrecv {
			p.c.env.eng.FreeContext(p.ctx)
		}
	}
	return nil
}
