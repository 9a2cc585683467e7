package mpi

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Request is what a call has begun: a send, a receive, a collective, or what NewRequest is for. Copies of it are the same
// request. The zero Request is inactive: it is complete, with an empty status. A request that was completed and waited
// for is gone: another Wait or Test of it returns ErrRequest, never another request's message. (MPI-4.1, chapter 3.7)
type Request struct {
	r    engine.Request // its Note: see note
	c    *Comm          // nil: inactive
	peer int32          // as the program named it; ProcNull: nothing is to be done
	tag  int32
}

// A Request has no more than four words, which the compiler keeps in registers. A larger one would be written
// to memory field by field and then copied as a whole. That copy must wait until the fields have reached the
// cache. They queue behind the messages sent before, whose cache lines the receiver holds.

// operation is the call that made a request.
type operation uint32

const (
	opIsend operation = iota
	opIssend
	opIbsend
	opIsendView
	opIssendView
	opCollective
	opPsend
	opIsendObject
	opIrecv // from here on they receive
	opImrecv
	opMrecv
	opRecvAlloc
	opRecvObject
	opIrecvView
	opIrecvObject
	opIsendrecv // from here on see composed.go
	opPrecv
	opGeneralised
)

var operations = [...]string{"Isend", "Issend", "Ibsend", "IsendView", "IssendView", "", "PsendInit", "IsendObject", "Irecv", "Imrecv", "Mrecv", "RecvAlloc",
	"RecvObject", "IrecvView", "IrecvObject", "Isendrecv", "PrecvInit", "NewRequest"}

// noteBits is the number of bits for the operation in a note. The rest is the size of an element, or 0 if it
// does not fit.
const noteBits = 5

func note(op operation, t *engine.Type) uint32 {
	n := uint32(op)
	if size := uint64(t.Size); size < 1<<(32-noteBits) {
		n |= uint32(size) << noteBits
	}
	return n
}

// noteOf is note for a basic type.
func noteOf[T any](op operation) uint32 {
	var z T
	return uint32(op) | uint32(unsafe.Sizeof(z))<<noteBits
}

func (r *Request) op() operation { return operation(r.r.Note & (1<<noteBits - 1)) }

// receives reports whether it is a receive. Only a receive has a status.
func (r *Request) receives() bool { return r.op().receives() }

func (op operation) receives() bool { return op >= opIrecv }

// role names the part that the other rank plays.
func (op operation) role() string {
	if op.receives() {
		return "source"
	}
	return "destination"
}

// size returns the size of an element of a receive whose message was of type id.
func (r *Request) size(id uint32) int {
	size := int(r.r.Note >> noteBits)
	if size == 0 {
		size = sizeOf(id)
	}
	return size
}

// Isend begins Send. buf belongs to the library until the request completes. Errors at the call: ErrRank,
// ErrTag, ErrType, ErrComm. Later errors come with the request. (MPI-4.1, chapter 3.7.2)
func Isend[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	t := basic((*T)(nil))
	if t == nil || !c.plain(dst, tag) {
		return isendOdd(opIsend, c, buf, dst, tag)
	}
	k := c.core
	r, err := k.eng.Isend(k.toWorld(dst), k.ctx, int32(tag), t, bytesOf(buf), engine.Standard)
	if err != nil {
		return c.refused(opIsend, dst, tag, err)
	}
	r.Note = uint32(opIsend)
	return Request{r, c, int32(dst), int32(tag)}, nil
}

// Issend begins Ssend. buf belongs to the library until the request completes. Errors: as Isend. (MPI-4.1, chapter
// 3.7.2)
func Issend[T any](c *Comm, buf []T, dst, tag int) (Request, error) {
	return isendOdd(opIssend, c, buf, dst, tag)
}

// Irecv begins Recv. buf belongs to the library until the request completes. Errors: as Isend. (MPI-4.1,
// chapter 3.7.2)
func Irecv[T any](c *Comm, buf []T, src, tag int) (Request, error) {
	t := basic((*T)(nil))
	if t == nil || !c.plain(src, tag) {
		return irecvOdd(c, buf, src, tag)
	}
	k := c.core
	r, err := k.eng.Irecv(k.toWorld(src), k.ctx, int32(tag), t, bytesOf(buf))
	if err != nil {
		return c.refused(opIrecv, src, tag, err)
	}
	r.Note = noteOf[T](opIrecv)
	return Request{r, c, int32(src), int32(tag)}, nil
}

// isendOdd and irecvOdd are these calls in the cases that are not plain.
func isendOdd[T any](op operation, c *Comm, buf []T, dst, tag int) (Request, error) {
	t, err := elem[T]()
	if err != nil {
		return c.refused(op, dst, tag, err)
	}
	return c.isend(op, t, bytesOf(buf), dst, tag)
}

func irecvOdd[T any](c *Comm, buf []T, src, tag int) (Request, error) {
	t, err := elem[T]()
	if err != nil {
		return c.refused(opIrecv, src, tag, err)
	}
	return c.irecv(opIrecv, t, bytesOf(buf), src, tag)
}

// These functions take no more arguments than there are registers, and leave unusual cases to other functions.
// That makes them twice as fast.

func (c *Comm) isend(op operation, t *engine.Type, p []byte, dst, tag int) (Request, error) {
	if !c.plain(dst, tag) {
		if err := c.checkSend(dst, tag); err != nil || dst == ProcNull {
			return c.refused(op, dst, tag, err)
		}
	}
	k := c.core
	r, err := k.eng.Isend(k.toWorld(dst), k.ctx, int32(tag), t, p, op.mode())
	if err != nil {
		return c.refused(op, dst, tag, err)
	}
	r.Note = uint32(op)
	return Request{r, c, int32(dst), int32(tag)}, nil
}

// mode of a send.
func (op operation) mode() engine.SendMode {
	if op == opIssend || op == opIssendView {
		return engine.Synchronous
	}
	return engine.Standard
}

func (c *Comm) irecv(op operation, t *engine.Type, p []byte, src, tag int) (Request, error) {
	if !c.plain(src, tag) {
		if err := c.checkRecv(src, tag); err != nil || src == ProcNull {
			return c.refused(op, src, tag, err)
		}
	}
	k := c.core
	r, err := k.eng.Irecv(k.source(src), k.ctx, int32(tag), t, p)
	if err != nil {
		return c.refused(op, src, tag, err)
	}
	r.Note = note(op, t)
	return Request{r, c, int32(src), int32(tag)}, nil
}

// refused is the result of a call that could not begin. Without an error it is the result of a call with
// ProcNull, which need not begin.
func (c *Comm) refused(op operation, peer, tag int, err error) (Request, error) {
	if err == nil {
		return Request{engine.Request{Note: uint32(op)}, c, int32(peer), int32(tag)}, nil
	}
	return Request{}, c.failPeer(operations[op], op.role(), peer, tag, err)
}

// outcome returns the engine's status as a Status.
func (r *Request) outcome(s engine.Status) Status {
	if r.receives() {
		if r.op() >= opIsendrecv {
			return r.composedOutcome(s)
		}
		return r.c.status(s, r.size(s.Type))
	}
	return emptyStatus
}

// outcomeOf is outcome after an error.
func (r *Request) outcomeOf(s engine.Status, err error) Status {
	if r.receives() {
		if r.op() >= opIsendrecv {
			return r.composedOutcome(s)
		}
		return r.c.failed(s, r.size(s.Type), err)
	}
	return emptyStatus
}

// failed is the result of a call that should have ended the request.
func (r *Request) failed(call string, s engine.Status, err error) (Status, error) {
	return r.outcomeOf(s, err), r.fail(call, err)
}

// fail is Comm.failPeer for a call about the request: "Wait of Irecv(source 1, tag 7)".
func (r *Request) fail(call string, err error) error {
	switch r.op() {
	case opCollective:
		return r.broken(call, err)
	case opGeneralised:
		return r.c.fail(call+" of NewRequest", err)
	}
	var part *engine.PartError
	if errors.As(err, &part) {
		err = part.Err
	}
	return r.c.failPeer(call+" of "+operations[r.op()], r.op().role(), int(r.peer), int(r.tag), err)
}

// idle returns the status of a request that needs no engine.
func (r *Request) idle() (Status, bool) {
	switch {
	case r.c == nil:
		return emptyStatus, true
	case r.peer == ProcNull:
		return nullStatus, true
	}
	return Status{}, false
}

// Wait returns when the request is complete, and ends it: the buffer belongs to the caller again. Errors: those
// of the operation; ErrRequest if the request was ended before; ErrDeadline of a view. After ErrDeadline the
// request is still active. Test ends it, after Cancel if need be. (MPI-4.1, chapter 3.7.3)
func (r Request) Wait() (Status, error) {
	if st, ok := r.idle(); ok {
		return st, nil
	}
	s, err := r.c.env.eng.Wait(r.r, r.c.view)
	if err != nil {
		return r.failed("Wait", s, err)
	}
	return r.outcome(s), nil
}

// end is Wait on behalf of another call. Wait does not use it, because passing the call's name costs time.
func (r *Request) end(call string) (Status, error) {
	if st, ok := r.idle(); ok {
		return st, nil
	}
	s, err := r.c.env.eng.Wait(r.r, r.c.view)
	if err != nil {
		return r.failed(call, s, err)
	}
	return r.outcome(s), nil
}

// Test reports whether the request is complete and, if so, ends it like Wait. Errors: as Wait, without
// ErrDeadline. (MPI-4.1, chapter 3.7.3)
func (r Request) Test() (status Status, done bool, err error) {
	if st, ok := r.idle(); ok {
		return st, true, nil
	}
	s, done, err := r.c.env.eng.Test(r.r)
	switch {
	case err != nil:
		status, err = r.failed("Test", s, err)
		return status, true, err
	case !done:
		return Status{}, false, nil
	}
	return r.outcome(s), true, nil
}

// Completed reports whether the request is complete, without ending it. (MPI-4.1,
// chapter 3.7.6, MPI_Request_get_status)
func (r Request) Completed() bool {
	_, ok := r.idle()
	return ok || r.c.env.eng.Done(r.r)
}

// Cancel withdraws a receive that no message has matched yet. Its Wait then returns ErrCanceled. A receive that
// is already matched goes on, and Wait returns its message. Nothing else can be cancelled: ErrRequest. (MPI-4.1,
// chapter 3.8.4)
func (r Request) Cancel() error {
	if _, ok := r.idle(); ok {
		return nil
	}
	err := fmt.Errorf("%w: only receives can be cancelled", ErrRequest)
	if op := r.op(); op.receives() && op < opIsendrecv {
		err = r.c.env.eng.Cancel(r.r)
	}
	if err != nil {
		return r.fail("Cancel", err)
	}
	return nil
}

// Waitall waits for all requests, clears them and returns their statuses. Errors: a RequestError for each request
// that has failed, with what Wait returns. After ErrDeadline a request is still active, and is not cleared.
// (MPI-4.1, chapter 3.7.5)
func Waitall(rs []Request) ([]Status, error) {
	st := make([]Status, len(rs))
	return st, WaitallInto(rs, st)
}

// WaitallInto is Waitall without allocation. The statuses go to st, which is as long as rs, or nil if nobody
// needs them. Errors: as Waitall; ErrCount if st has another length. (MPI-4.1, chapter 3.7.5)
func WaitallInto(rs []Request, st []Status) error {
	if st != nil && len(st) != len(rs) {
		return (*Comm)(nil).fail("WaitallInto", fmt.Errorf("%w: %d statuses for %d requests", ErrCount, len(st), len(rs)))
	}
	first := 0
	for first < len(rs) && !rs[first].r.Active() {
		clearInto(rs, st, first, engine.Status{})
		first++
	}
	if first == len(rs) {
		return nil
	}
	var failures []waitFailure
	waits := rs[first].c.env.eng.BeginWaits()
	for i := first; i < len(rs); i++ {
		if st == nil {
			done := waits.Done(&rs[i].r, unsafe.Sizeof(rs[i]), len(rs)-i)
			clear(rs[i : i+done])
			if i += done; i == len(rs) {
				break
			}
		}
		var v *engine.View
		if c := rs[i].c; c != nil {
			v = c.view
		}
		s, err := waits.Wait(rs[i].r, v)
		if err != nil {
			failures = append(failures, waitFailure{i, s, err})
			continue
		}
		if st == nil {
			rs[i] = Request{}
			continue
		}
		clearInto(rs, st, i, s)
	}
	waits.End()
	return joinFailures(rs, st, failures)
}

// clearInto ends a request that succeeded.
func clearInto(rs []Request, st []Status, i int, s engine.Status) {
	if st != nil {
		var idle bool
		if st[i], idle = rs[i].idle(); !idle {
			st[i] = rs[i].outcome(s)
		}
	}
	rs[i] = Request{}
}

// waitFailure is the engine's error for one of several requests. It becomes an Error outside the engine.
type waitFailure struct {
	i   int
	st  engine.Status
	err error
}

func joinFailures(rs []Request, st []Status, failures []waitFailure) error {
	var failed []error
	for _, f := range failures {
		s, err := rs[f.i].failed("Waitall", f.st, f.err)
		if st != nil {
			st[f.i] = s
		}
		failed = append(failed, &RequestError{f.i, err})
		if !errors.Is(err, ErrDeadline) { // after ErrDeadline the request is still active, and the caller may wait for it
			rs[f.i] = Request{}
		}
	}
	return joinRequests(failed)
}

// Waitany waits until one of the requests is complete, clears it, and returns its index and status. The index
// is Undefined if none is active. No request is passed over for ever while others complete. Errors: the
// RequestError of that request; ErrDeadline of the first active request's view. (MPI-4.1, chapter 3.7.5)
func Waitany(rs []Request) (int, Status, error) {
	i, err := waitAny("Waitany", rs)
	if i < 0 {
		return Undefined, emptyStatus, err
	}
	st, err := rs[i].end("Waitany")
	rs[i] = Request{}
	return i, st, atRequest(i, err)
}

// atRequest is the error of the request with that index, nil if it has none.
func atRequest(i int, err error) error {
	if err == nil {
		return nil
	}
	return &RequestError{i, err}
}

// Waitsome waits until at least one request is complete. It clears all that are complete, and returns their
// indices and statuses. It returns none if none is active. Errors: a RequestError for each request that has failed;
// ErrDeadline as Waitany. (MPI-4.1, chapter 3.7.5)
func Waitsome(rs []Request) ([]int, []Status, error) {
	i, err := waitAny("Waitsome", rs)
	if i < 0 {
		return nil, nil, err
	}
	return endSome("Waitsome", rs)
}

// Testall reports whether all requests are complete. If so it clears them and returns their statuses. Otherwise
// it leaves them all. Errors: as Waitall. (MPI-4.1, chapter 3.7.5)
func Testall(rs []Request) ([]Status, bool, error) {
	for _, r := range rs {
		if !r.Completed() {
			return nil, false, nil
		}
	}
	st, err := Waitall(rs)
	return st, true, err
}

// Testany looks for one complete request, clears it, and returns its index and status. If none is complete, ok
// is false. If none is active, ok is true and the index is Undefined. Errors: the RequestError of that request.
// (MPI-4.1, chapter 3.7.5)
func Testany(rs []Request) (index int, status Status, ok bool, err error) {
	active := false
	for i := range rs {
		switch {
		case rs[i].c == nil:
		case rs[i].Completed():
			st, err := rs[i].end("Testany")
			rs[i] = Request{}
			return i, st, true, atRequest(i, err)
		default:
			active = true
		}
	}
	return Undefined, emptyStatus, !active, nil
}

// Testsome clears all requests that are complete and returns their indices and
// statuses. Errors: a RequestError for each request that has failed. (MPI-4.1, chapter 3.7.5)
func Testsome(rs []Request) ([]int, []Status, error) { return endSome("Testsome", rs) }

// endSome ends all requests that are complete.
func endSome(call string, rs []Request) ([]int, []Status, error) {
	var (
		done   []int
		sts    []Status
		failed []error
	)
	for i := range rs {
		if rs[i].c == nil || !rs[i].Completed() {
			continue
		}
		st, err := rs[i].end(call)
		rs[i] = Request{}
		done, sts = append(done, i), append(sts, st)
		if err != nil {
			failed = append(failed, &RequestError{i, err})
		}
	}
	return done, sts, joinRequests(failed)
}

// handlePool holds the engine's handles of the requests of one wait.
var handlePool = sync.Pool{New: func() any { return new([]engine.Request) }}

// waitAny returns the index of a request that is complete or was ended before, -1 if none is active.
func waitAny(call string, rs []Request) (int, error) {
	hp := handlePool.Get().(*[]engine.Request)
	handles := (*hp)[:0]
	var first *Request
	for i := range rs {
		switch {
		case rs[i].c == nil:
		case rs[i].peer == ProcNull:
			handlePool.Put(hp)
			return i, nil
		case first == nil:
			first = &rs[i]
		}
		handles = append(handles, rs[i].r)
	}
	*hp = handles
	defer handlePool.Put(hp)
	if first == nil {
		return -1, nil
	}
	i, err := first.c.env.eng.WaitAny(handles, first.c.view)
	if err != nil && i < 0 {
		return -1, first.c.fail(call, err)
	}
	return i, nil // one that was ended before says so when it is ended again
}
