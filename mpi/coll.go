package mpi

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/rpi"
)

// Collectives are made of ordinary messages in the communicator's second
// context. All messages of one call carry the same tag, and receives take any
// tag from the expected partner and compare: a rank that is in another call, or
// in the same with another root, length or type, is found out by its first
// message.
//
//	bits 30..26 kind | 25..16 sequence number on the communicator | 15..0 hash of (root, bytes, type)
//
// Where no message would ever arrive, package-private watch (watch.go)
// compares what blocked ranks are in.

// kind names a collective; normal and in-place form are the same.
type kind uint8

const (
	kindBarrier kind = 1 + iota
	kindBcast
	kindReduce
	kindAllreduce
	kindGather
	kindGatherv
	kindScatter
	kindScatterv
	kindAllgather
	kindAllgatherv
	kindAlltoall
	kindAlltoallv
	kindScan
	kindExscan
	kindReduceScatter
	kindReduceScatterBlock
	kindSplit
	kinds
)

var kindNames = [32]string{"?", "Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Gatherv", "Scatter", "Scatterv",
	"Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Scan", "Exscan", "ReduceScatter", "ReduceScatterBlock", "Split"}

func (k kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return "?"
}

// rooted reports whether one rank plays another part than the rest.
func (k kind) rooted() bool {
	switch k {
	case kindBcast, kindReduce, kindGather, kindGatherv, kindScatter, kindScatterv:
		return true
	}
	return false
}

// noRoot is the root of collectives that have none.
const noRoot = -1

// collState is what a communicator knows of its collectives.
type collState struct {
	busy chan struct{} // holds a token while a collective runs: they are a sequence
	seq  uint64        // number of the present or last one, from 1; guarded by busy
	// recent are the calls begun last, by sequence number modulo its length,
	// for the watch.
	recent  [recentCalls]recentCall
	active  atomic.Uint64 // sequence number of the call in progress, 0 if none
	refused atomic.Uint64 // of the last one that ended at once, its arguments being wrong
	listed  bool          // the watch was started; guarded by busy
	failed  atomic.Bool   // poisoned from here
}

const recentCalls = 8

// refusedBytes is, to the watch, the length of a call that was refused for its
// arguments: the ranks that were given good ones wait in it for nothing.
const refusedBytes = -2

// recentCall is one call as the watch sees it: kind and sequence number, then
// root and length.
type recentCall struct{ what, root, bytes atomic.Uint64 }

// collective is one call in progress.
type collective struct {
	c     *Comm
	t     *rpi.Type
	eng   *rpi.Engine
	tag   int32
	kind  kind
	root  int
	bytes int // length that all ranks must agree on, -1 if there is none
}

// enter begins a collective. err is what was found wrong with its arguments: it
// is returned only after the call has taken its place in the sequence, so that
// the other ranks' next messages do not fit and are noticed.
func (c *Comm) enter(k kind, root int, t *rpi.Type, bytes int, err error) (collective, error) {
	if e := c.ready(); e != nil {
		return collective{}, c.fail(k.String(), e)
	}
	if e := c.acquire(); e != nil {
		return collective{}, c.fail(k.String(), e)
	}
	if err == nil && k.rooted() && uint(root) >= uint(c.size) {
		err = fmt.Errorf("%w: root %d", ErrRank, root)
	}
	s := &c.coll
	s.seq++
	x := collective{c: c, t: t, eng: c.env.eng, kind: k, root: root, bytes: bytes}
	x.tag = int32(k)<<26 | int32(s.seq&0x3ff)<<16 | int32(x.signature())
	if err != nil {
		if c.size > 1 {
			x.root, x.bytes = noRoot, refusedBytes
			x.announce(s)
			s.refused.Store(s.seq)
			x.root, x.bytes = root, bytes
		}
		<-s.busy
		return collective{}, c.fail(x.name(), err)
	}
	if c.size > 1 {
		x.announce(s)
		s.active.Store(s.seq)
	}
	return x, nil
}

func (c *Comm) acquire() error {
	select {
	case c.coll.busy <- struct{}{}:
		return nil
	default:
	}
	if c.view == nil {
		c.coll.busy <- struct{}{}
		return nil
	}
	select {
	case c.coll.busy <- struct{}{}:
		return nil
	case <-c.ctxt.Done():
		return fmt.Errorf("%w: %w, waiting for another goroutine's collective to end", ErrDeadline, c.ctxt.Err())
	}
}

// announce makes the call visible to the watch.
func (x *collective) announce(s *collState) {
	r := &s.recent[s.seq%recentCalls]
	r.what.Store(0) // what is being changed is not compared
	r.root.Store(uint64(int64(x.root)))
	r.bytes.Store(uint64(int64(x.bytes)))
	r.what.Store(s.seq<<8 | uint64(x.kind))
	if !s.listed {
		s.listed = true
		x.c.env.watch.start()
	}
}

// leave ends the call. Whatever went wrong within it has left the ranks in
// different states: the communicator is of no more use, and all are told.
func (x *collective) leave(err error) error {
	c := x.c
	c.coll.active.Store(0)
	if err != nil {
		err = x.c.fail(x.name(), err)
		if !errors.Is(err, ErrAborted) && !errors.Is(err, ErrPoisoned) {
			c.poison(err)
		}
	}
	<-c.coll.busy
	return err
}

// name is the call in words.
func (x *collective) name() string {
	b := x.kind.String() + "("
	if x.kind.rooted() {
		b += fmt.Sprintf("root %d, ", x.root)
	}
	if x.bytes >= 0 && x.t != nil {
		b += fmt.Sprintf("%d %s, ", x.bytes/x.t.Size, x.t.Name)
	}
	return fmt.Sprintf("%scall %d)", b, x.c.coll.seq)
}

// signature hashes what all ranks must agree on.
func (x *collective) signature() uint16 {
	h := uint64(x.root+1)*0x9e3779b97f4a7c15 ^ uint64(x.bytes+1)*0xc2b2ae3d27d4eb4f
	if x.t != nil {
		h ^= uint64(x.t.ID) * 0x165667b19e3779f9
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return uint16(h >> 48)
}

func (x *collective) send(dst int, p []byte) error {
	c := x.c
	if err := x.eng.Send(c.toWorld(dst), c.ctx|1, x.tag, x.t, p, rpi.Standard, c.view); err != nil {
		return fmt.Errorf("sending to rank %d: %w", dst, err)
	}
	return nil
}

// recv receives exactly p from src.
func (x *collective) recv(src int, p []byte) error {
	s, err := x.eng.Recv(x.c.toWorld(src), x.c.ctx|1, rpi.AnyTag, x.t, p, x.c.view)
	return x.check(src, s, len(p), err)
}

func (x *collective) irecv(src int, p []byte) (rpi.Request, error) {
	return x.eng.Irecv(x.c.toWorld(src), x.c.ctx|1, rpi.AnyTag, x.t, p)
}

// waitRecv ends an irecv of p from src.
func (x *collective) waitRecv(r rpi.Request, src int, p []byte) error {
	s, err := x.eng.Wait(r, x.c.view)
	if err != nil {
		x.drop(r)
	}
	return x.check(src, s, len(p), err)
}

// exchange sends sp to dst and receives rp from src at the same time.
func (x *collective) exchange(dst int, sp []byte, src int, rp []byte) error {
	r, err := x.irecv(src, rp)
	if err != nil {
		return fmt.Errorf("receiving from rank %d: %w", src, err)
	}
	if err := x.send(dst, sp); err != nil {
		x.drop(r)
		return err
	}
	return x.waitRecv(r, src, rp)
}

func (x *collective) drop(r rpi.Request) { drop(x.eng, r) }

// drop gives up a receive after an error, if it is still active, so that its
// buffer is the caller's again: a message that has begun to arrive is waited
// for.
func drop(e *rpi.Engine, r rpi.Request) {
	if e.Cancel(r) == nil {
		_, _ = e.Wait(r, nil)
	}
}

// check compares what was received with what the call expects.
func (x *collective) check(src int, s rpi.Status, want int, err error) error {
	switch {
	case err == nil && int32(s.Tag) == x.tag && s.Bytes == want:
		return nil
	case err != nil && !errors.Is(err, ErrTruncate) && !errors.Is(err, ErrType):
		return fmt.Errorf("receiving from rank %d: %w", src, err)
	}
	other, seq := kind(s.Tag>>26), s.Tag>>16&0x3ff
	switch {
	case int32(s.Tag) == x.tag:
		return fmt.Errorf("%w: rank %d has sent %d bytes, %d are expected", ErrMismatch, src, s.Bytes, want)
	case other != x.kind || seq != int(x.tag>>16&0x3ff):
		return fmt.Errorf("%w: rank %d is in %v, its call %d", ErrMismatch, src, other, uint64(seq)|(x.c.coll.seq&^0x3ff))
	}
	return fmt.Errorf("%w: rank %d is in the same call with another root, length or element type", ErrMismatch, src)
}

// poison makes the communicator fail on all its ranks.
func (c *core) poison(cause error) {
	if c.coll.failed.Swap(true) {
		return
	}
	c.env.watch.verdict(c, cause)
	m := c.members()
	c.env.eng.Poison(c.ctx|1, m, cause)
	c.env.eng.Poison(c.ctx, m, cause)
}

// compare returns an error if two lengths that one call needs differ.
func compare(what string, got, want int) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%w: %s has %d elements, %d are needed", ErrCount, what, got, want)
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// apart returns ErrBuffer if send and receive buffer share memory.
func apart(a, b []byte) error {
	if overlap(a, b) {
		return ErrBuffer
	}
	return nil
}
