package mpi

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Send sends buf to rank dst with a tag, and returns when buf may be used again. For a short message that is
// usually before it is received, for a long one when the receiver has taken it. Messages between two ranks of a
// communicator do not overtake each other. Errors: ErrRank, ErrTag, ErrType, ErrComm, ErrPeerFailed,
// ErrDeadline. (MPI-4.1, chapter 3.2.1)
func Send[T any](c *Comm, buf []T, dst, tag int) error {
	if t := basic((*T)(nil)); t != nil && c.plain(dst, tag) {
		k := c.core
		if err := k.eng.Send(k.toWorld(dst), k.ctx, int32(tag), t, bytesOf(buf), engine.Standard, c.view); err != nil {
			return c.failPeer("Send", "destination", dst, tag, err)
		}
		return nil
	}
	t, err := elem[T]()
	return c.send("Send", t, err, bytesOf(buf), dst, tag, engine.Standard)
}

// Ssend is Send, but returns only when the receiver has begun to receive the message. After ErrDeadline a short
// message may still be received later. A long one is withdrawn unless it was under way. Errors: as Send.
// (MPI-4.1, chapter 3.4)
func Ssend[T any](c *Comm, buf []T, dst, tag int) error {
	t, err := elem[T]()
	return c.send("Ssend", t, err, bytesOf(buf), dst, tag, engine.Synchronous)
}

// Recv receives into buf the next message of rank src (or AnySource) with tag (or AnyTag). A shorter message
// leaves the rest of buf as it is. A longer one is cut, and ErrTruncate is returned. The status holds sender,
// tag and length. Other errors: as Send; ErrType if the sender's elements are of another type; ErrCanceled if
// the sender gave a long message up because its deadline had passed. (MPI-4.1, chapter 3.2.4)
func Recv[T any](c *Comm, buf []T, src, tag int) (Status, error) {
	if t := basic((*T)(nil)); t != nil && c.plain(src, tag) {
		k := c.core
		s, err := k.eng.Recv(k.toWorld(src), k.ctx, int32(tag), t, bytesOf(buf), c.view)
		if err != nil {
			return c.failed(s, t.Size, err), c.failPeer("Recv", "source", src, tag, err)
		}
		return Status{Source: src, Tag: s.Tag, Bytes: s.Bytes, Count: s.Bytes / int(unsafe.Sizeof(*new(T)))}, nil
	}
	t, err := elem[T]()
	return c.recv("Recv", t, err, bytesOf(buf), src, tag)
}

// Sendrecv sends one message and receives another, in whatever order is possible. So rings and shifts of it
// cannot deadlock. The buffers must not overlap. The status is that of the receive. Errors: as Send and Recv,
// ErrBuffer. (MPI-4.1, chapter 3.10)
func Sendrecv[S, R any](c *Comm, send []S, dst, stag int, recv []R, src, rtag int) (Status, error) {
	st, err := elem[S]()
	rt, rerr := elem[R]()
	if err == nil {
		err = rerr
	}
	sp, rp := bytesOf(send), bytesOf(recv)
	if overlap(sp, rp) {
		return Status{}, c.fail("Sendrecv", ErrBuffer)
	}
	return c.sendrecv("Sendrecv", st, rt, err, sp, dst, stag, rp, src, rtag)
}

// SendrecvReplace sends buf and receives another message into it. Errors: as
// Send and Recv. (MPI-4.1, chapter 3.10)
func SendrecvReplace[T any](c *Comm, buf []T, dst, stag, src, rtag int) (Status, error) {
	t, err := elem[T]()
	p := bytesOf(buf)
	copied := borrow(len(p))
	defer copied.giveBack()
	sp := copied.bytes(len(p))
	copy(sp, p)
	return c.sendrecv("SendrecvReplace", t, t, err, sp, dst, stag, p, src, rtag)
}

func (c *Comm) send(call string, t *engine.Type, err error, p []byte, dst, tag int, mode engine.SendMode) error {
	if err == nil && !c.plain(dst, tag) {
		err = c.checkSend(dst, tag)
	}
	if err == nil && dst != ProcNull {
		err = c.env.eng.Send(c.toWorld(dst), c.ctx, int32(tag), t, p, mode, c.view)
	}
	if err != nil {
		return c.failPeer(call, "destination", dst, tag, err)
	}
	return nil
}

func (c *Comm) recv(call string, t *engine.Type, err error, p []byte, src, tag int) (Status, error) {
	if err == nil && !c.plain(src, tag) {
		err = c.checkRecv(src, tag)
	}
	if err != nil {
		return Status{}, c.failPeer(call, "source", src, tag, err)
	}
	if src == ProcNull {
		return nullStatus, nil
	}
	s, err := c.env.eng.Recv(c.source(src), c.ctx, int32(tag), t, p, c.view)
	if err != nil {
		return c.failed(s, t.Size, err), c.failPeer(call, "source", src, tag, err)
	}
	return c.status(s, t.Size), nil
}

func (c *Comm) sendrecv(call string, st, rt *engine.Type, err error, sp []byte, dst, stag int, rp []byte, src, rtag int) (Status, error) {
	if err == nil {
		err = c.checkRecv(src, rtag)
	}
	if err != nil {
		return Status{}, c.failPeer(call, "source", src, rtag, err)
	}
	if err := c.checkSend(dst, stag); err != nil {
		return Status{}, c.failPeer(call, "destination", dst, stag, err)
	}
	if src == ProcNull {
		return nullStatus, c.send(call, st, nil, sp, dst, stag, engine.Standard)
	}
	e := c.env.eng
	r, err := e.Irecv(c.source(src), c.ctx, int32(rtag), rt, rp)
	if err != nil {
		return Status{}, c.failPeer(call, "source", src, rtag, err)
	}
	if err := c.send(call, st, nil, sp, dst, stag, engine.Standard); err != nil {
		drop(e, r)
		return Status{}, err
	}
	s, err := e.Wait(r, c.view)
	if errors.Is(err, ErrDeadline) && e.Cancel(r) == nil {
		if late, lerr := e.Wait(r, nil); !errors.Is(lerr, ErrCanceled) { // it was on its way
			s, err = late, lerr
		}
	}
	if err != nil {
		drop(e, r)
		return c.failed(s, rt.Size, err), c.failPeer(call, "source", src, rtag, err)
	}
	return c.status(s, rt.Size), nil
}

// source returns the engine's name for the source of a receive.
func (c *core) source(src int) int {
	if src == AnySource {
		return engine.AnySource
	}
	return c.toWorld(src)
}

// plain reports whether a message to or from that rank with that tag is allowed and needs no special treatment.
// Most are plain.
func (c *Comm) plain(rank, tag int) bool {
	return c != nil && c.core != nil && uint(rank) < uint(c.size) && uint(tag) <= MaxTag && !c.freed.Load() && !c.env.ended.Load()
}

func (c *Comm) checkSend(dst, tag int) error {
	if err := c.ready(); err != nil {
		return err
	}
	if uint(dst) >= uint(c.size) && dst != ProcNull {
		return fmt.Errorf("%w: destination %d", ErrRank, dst)
	}
	if uint(tag) > MaxTag {
		return fmt.Errorf("%w: %d", ErrTag, tag)
	}
	return nil
}

func (c *Comm) checkRecv(src, tag int) error {
	if err := c.ready(); err != nil {
		return err
	}
	if uint(src) >= uint(c.size) && src != AnySource && src != ProcNull {
		return fmt.Errorf("%w: source %d", ErrRank, src)
	}
	if uint(tag) > MaxTag && tag != AnyTag {
		return fmt.Errorf("%w: %d", ErrTag, tag)
	}
	return nil
}
