package mpi

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// The messages that collectives are made of. A step is several messages at once: get and put add them, run
// carries the step out.

// send sends p to dst.
func (x *collective) send(dst int, p []byte) error {
	c := x.c
	return sending(dst, x.eng.Send(c.toWorld(dst), c.ctx|1, x.tag, x.t, p, engine.Standard, c.view))
}

func sending(dst int, err error) error {
	if err != nil {
		err = fmt.Errorf("sending to rank %d: %w", dst, err)
	}
	return err
}

// recv receives exactly p from src.
func (x *collective) recv(src int, p []byte) error {
	s, err := x.eng.Recv(x.c.toWorld(src), x.c.ctx|1, engine.AnyTag, x.t, p, x.c.view)
	return x.check(src, &s, len(p), err)
}

// get adds to the step a receive of exactly p from src.
func (x *collective) get(src int, p []byte) {
	s := &x.c.coll
	s.moves = append(s.moves, engine.Move{Peer: x.c.toWorld(src), Recv: true, Buf: p})
}

// put adds to the step a send of p to dst.
func (x *collective) put(dst int, p []byte) {
	s := &x.c.coll
	s.moves = append(s.moves, engine.Move{Peer: x.c.toWorld(dst), Buf: p})
}

// run carries the step out.
func (x *collective) run() error {
	c := x.c
	moves := c.coll.moves
	c.coll.moves = moves[:0]
	if len(moves) == 0 {
		return nil
	}
	failed, err := x.eng.Together(moves, c.ctx|1, x.tag, engine.AnyTag, x.t, c.view)
	var wrong error
	for i := range moves {
		m := &moves[i]
		switch {
		case wrong != nil || err != nil && i != failed:
		case m.Recv && (err != nil || int32(m.Status.Tag) != x.tag || m.Status.Bytes != len(m.Buf)):
			wrong = x.check(c.fromWorld(m.Peer), &m.Status, len(m.Buf), err)
		case err != nil:
			wrong = sending(c.fromWorld(m.Peer), err)
		}
		m.Buf = nil // it belongs to the caller
	}
	if wrong == nil {
		wrong = err
	}
	return wrong
}

// exchange sends sp to dst and receives rp from src at the same time. It does what a step of two messages does,
// and costs less.
func (x *collective) exchange(dst int, sp []byte, src int, rp []byte) error {
	c := x.c
	s, received, err := x.eng.Exchange(c.toWorld(dst), sp, c.toWorld(src), rp, c.ctx|1, x.tag, engine.AnyTag, x.t, c.view)
	switch {
	case err != nil && !received:
		return sending(dst, err)
	case err != nil || int32(s.Tag) != x.tag || s.Bytes != len(rp):
		return x.check(src, &s, len(rp), err)
	}
	return nil
}

// drop gives up a receive after an error, if it is still active, so that its buffer belongs to the caller
// again. It waits for a message that has begun to arrive.
func drop(e *engine.Engine, r engine.Request) {
	if e.Cancel(r) == nil {
		_, _ = e.Wait(r, nil)
	}
}

// check compares what was received with what the call expects.
func (x *collective) check(src int, s *engine.Status, want int, err error) error {
	switch {
	case err == nil && int32(s.Tag) == x.tag && s.Bytes == want:
		return nil
	case err != nil && !errors.Is(err, ErrTruncate) && !errors.Is(err, ErrType):
		return fmt.Errorf("receiving from rank %d: %w", src, err)
	}
	return x.differs(src, s, x.tag, want)
}

// differs says in what another rank's call differs from this one's. The tag of a turn also depends on earlier
// calls.
func (x *collective) differs(src int, s *engine.Status, tag int32, want int) error {
	other, seq := kind(s.Tag>>26), s.Tag>>16&0x3ff
	if int32(s.Tag) == tag {
		return fmt.Errorf("%w: rank %d has sent %d bytes, %d are expected", ErrMismatch, src, s.Bytes, want)
	}
	var carries *content
	if int32(s.Tag)>>16 == tag>>16 && x.c.inter == nil && x.t != nil {
		// A turn's tag goes on from what was the same in all calls before.
		if found, ok := x.ofSignature(uint16(x.tag) + uint16(s.Tag) - uint16(tag)); ok {
			carries = &found
		}
	}
	if text, ok := x.disagreement(src, carries); ok {
		return fmt.Errorf("%w: %s", ErrMismatch, text)
	}
	switch {
	case other != x.kind || seq != int(tag>>16&0x3ff):
		return fmt.Errorf("%w: rank %d is in %v, its call %d", ErrMismatch, src, other, uint64(seq)|(x.seq&^0x3ff))
	case tag != x.tag:
		return fmt.Errorf("%w: rank %d has made this call, or one before, with another root, length, element type or operator", ErrMismatch, src)
	}
	return fmt.Errorf("%w: rank %d is in the same call with another root, length, element type or operator", ErrMismatch, src)
}
