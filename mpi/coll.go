package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
)

// Collectives are made of ordinary messages in the communicator's second
// context, or of turns of a team (shared.go). All messages of one call carry the
// same tag, and receives take any tag from the expected partner and compare: a
// rank that is in another call, or in the same with another root, length or
// type, is found out by its first message. So with turns, whose hash is also of
// the calls before.
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
	kindFinalize // none, but the end of all that come before it
	kinds
)

var kindNames = [32]string{"?", "Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Gatherv", "Scatter", "Scatterv",
	"Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Scan", "Exscan", "ReduceScatter", "ReduceScatterBlock", "Split", "Finalize"}

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
	// word is twice the number of the present or last call, from 1, plus one
	// while it runs: collectives are a sequence, and who sets the lowest bit has
	// all that is not atomic here.
	word   atomic.Uint64
	queued atomic.Int32  // goroutines that wait for another's call to end
	turn   chan struct{} // capacity 1: it has ended
	// recent are the calls begun last, by number modulo its length, for the
	// watch.
	recent  [recentCalls]recentCall
	refused atomic.Uint64 // number of the last one that ended at once, its arguments being wrong
	failed  sync.Once     // to poison it from here
	listed  bool          // the watch was started
	call    collective    // the one in progress
	plans   *plans
	nodes   *nodes // where the ranks are; nil: on one node
	team    team
	moves   []rpi.Move // the step in progress
}

// running returns the number of the call in progress, 0 if there is none.
func (s *collState) running() uint64 {
	if w := s.word.Load(); w&1 != 0 {
		return w >> 1
	}
	return 0
}

// collective is one call in progress.
type collective struct {
	c     *Comm
	t     *rpi.Type
	eng   *rpi.Engine
	seq   uint64
	tag   int32
	kind  kind
	root  int
	bytes int // length that all ranks must agree on, -1 if there is none
}

// enter begins a collective. err is what was found wrong with its arguments: it
// is returned only after the call has taken its place in the sequence, so that
// the other ranks' next messages do not fit and are noticed.
func (c *Comm) enter(k kind, root int, t *rpi.Type, bytes int, err error) (*collective, error) {
	if e := c.ready(); e != nil {
		return nil, c.fail(k.String(), e)
	}
	seq, e := c.acquire()
	if e != nil {
		return nil, c.fail(k.String(), e)
	}
	if err == nil && k.rooted() && uint(root) >= uint(c.size) {
		err = fmt.Errorf("%w: root %d", ErrRank, root)
	}
	s := &c.coll
	x := &s.call
	x.c, x.t, x.eng, x.seq, x.kind, x.root, x.bytes = c, t, c.env.eng, seq, k, root, bytes
	sign := x.signature()
	x.tag = int32(k)<<26 | int32(seq&0x3ff)<<16 | int32(sign)
	if err != nil {
		if c.size > 1 {
			x.root, x.bytes = noRoot, refusedBytes
			x.announce(s)
			s.refused.Store(seq)
			x.root, x.bytes = root, bytes
		}
		name := x.name()
		s.release(seq)
		return nil, c.fail(name, err)
	}
	if c.size > 1 {
		x.announce(s)
	}
	s.team.history = (s.team.history*31+uint16(k))*31 + sign
	return x, nil
}

// acquire begins the next call of the sequence and returns its number.
func (c *Comm) acquire() (uint64, error) {
	s := &c.coll
	if w := s.word.Load(); w&1 == 0 && s.word.CompareAndSwap(w, w+3) {
		return w>>1 + 1, nil
	}
	var given <-chan struct{}
	if c.view != nil {
		given = c.ctxt.Done()
	}
	s.queued.Add(1)
	defer s.queued.Add(-1)
	for {
		if w := s.word.Load(); w&1 == 0 {
			if s.word.CompareAndSwap(w, w+3) {
				return w>>1 + 1, nil
			}
			continue
		}
		select {
		case <-s.turn:
		case <-given:
			return 0, fmt.Errorf("%w: %w, waiting for another goroutine's collective to end", ErrDeadline, c.ctxt.Err())
		}
	}
}

// release ends the call.
func (s *collState) release(seq uint64) {
	s.word.Store(seq << 1)
	if s.queued.Load() != 0 {
		select {
		case s.turn <- struct{}{}:
		default:
		}
	}
}

// announce makes the call visible to the watch.
func (x *collective) announce(s *collState) {
	s.recent[x.seq%recentCalls].set(x.seq, x.kind, x.root, x.bytes)
	if !s.listed {
		s.listed = true
		x.c.env.watch.start()
	}
}

// leave ends the call. Whatever went wrong within it has left the ranks in
// different states: the communicator is of no more use, and all are told.
func (x *collective) leave(err error) error {
	c := x.c
	if err != nil {
		if errors.Is(err, ErrCanceled) {
			err = x.reason(err)
		}
		err = x.c.fail(x.name(), err)
		if !errors.Is(err, ErrAborted) && !errors.Is(err, ErrPoisoned) {
			c.poison(err)
		}
	}
	c.coll.release(x.seq)
	return err
}

// reasonWithin is how long a rank waits to hear why another has given up.
const reasonWithin = 10 * time.Second

// reason is why a rank has given its message up, which is all that err tells: its
// own call has failed, and it is about to let everybody know. Who has a deadline
// waits no longer than that.
func (x *collective) reason(err error) error {
	deadline := x.c.ctxt
	if deadline == nil {
		deadline = context.Background()
	}
	ctx, cancel := context.WithTimeout(deadline, reasonWithin)
	defer cancel()
	v := rpi.NewView(ctx, x.eng)
	defer v.Stop()
	const never = 0 // no collective has this tag
	_, told := x.eng.Recv(rpi.AnySource, x.c.ctx|1, never, nil, nil, v)
	switch {
	case errors.Is(told, ErrPoisoned), errors.Is(told, ErrAborted):
		return told
	case deadline.Err() != nil:
		return fmt.Errorf("%w, after %w", told, err)
	}
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
	return fmt.Sprintf("%scall %d)", b, x.seq)
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

// poison makes the communicator fail on all its ranks. It has failed here when the
// call returns, also if a caller and the watch find the cause at the same time: what
// the program calls next must be told of it.
func (c *core) poison(cause error) {
	c.coll.failed.Do(func() {
		c.env.watch.verdict(c, cause)
		m := c.members()
		c.env.eng.Poison(c.ctx|1, m, cause)
		c.env.eng.Poison(c.ctx, m, cause)
	})
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
