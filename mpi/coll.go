package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// A collective is made of ordinary messages in the communicator's second context, or of turns of a team
// (shared.go). All messages of one call carry the same tag. A receive takes any tag from the expected partner
// and compares it. So the first message of a rank that disagrees shows it: one that is in another call, or
// gives another root, length, type or operator. The tag of a turn hashes the earlier calls as well.
//
//	bits 30..26 kind | 25..16 sequence number on the communicator | 15..0 hash of (root, bytes, type, operator)
//
// Where no message would ever arrive, the watch (watch.go) compares the calls in which ranks are blocked.

// kind names a collective. The normal and the in-place form have the same kind.
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
	kindAlltoallw
	kindScan
	kindExscan
	kindReduceScatter
	kindReduceScatterBlock
	kindSplit
	kindDup      // has no messages
	kindFinalize // none, but the end of all that come before it
	kindCreate
	kindCart
	kindGraph
	kindNeighborAllgather
	kindNeighborAllgatherv
	kindNeighborAlltoall
	kindNeighborAlltoallv
	kindNeighborAlltoallw
	kindHalo
	kindMerge
	kinds // at most 32
)

var kindNames = [32]string{"?", "Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Gatherv", "Scatter", "Scatterv",
	"Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw", "Scan", "Exscan", "ReduceScatter", "ReduceScatterBlock", "Split", "Dup", "Finalize",
	"Create", "Cart", "DistGraph", "NeighborAllgather", "NeighborAllgatherv", "NeighborAlltoall", "NeighborAlltoallv", "NeighborAlltoallw", "Exchange", "Merge"}

func (k kind) String() string {
	name := "?"
	if k&^forms < kinds {
		name = kindNames[k&^forms]
	}
	switch {
	case k == kindHalo|begun:
		return "Halo.Start"
	case k&begun != 0:
		return "I" + string(name[0]|0x20) + name[1:]
	case k&persistent != 0:
		return name + "Init"
	}
	return name
}

// rooted reports whether one rank, the root, plays another part than the rest.
func (k kind) rooted() bool {
	switch k &^ forms {
	case kindBcast, kindReduce, kindGather, kindGatherv, kindScatter, kindScatterv:
		return true
	}
	return false
}

// carries reports whether the elements of a call are the program's.
func (k kind) carries() bool {
	switch k &^ forms {
	case kindBarrier, kindSplit, kindDup, kindFinalize, kindCreate, kindCart, kindGraph, kindMerge:
		return false
	}
	return true
}

// noRoot is the root of collectives that have none.
const noRoot = -1

// collState is the state of a communicator's collectives.
type collState struct {
	// word is twice the number of the present or last call, counted from 1, plus one while the call runs.
	// Collectives are a sequence. The goroutine that sets the lowest bit owns all fields here that are not
	// atomic.
	word   atomic.Uint64
	queued atomic.Int32  // goroutines that wait for another's call to end
	turn   chan struct{} // capacity 1: that call has ended
	// recent holds, for the watch, the calls begun last. Its index is the call number modulo its length.
	recent  [recentCalls]recentCall
	refused atomic.Uint64 // number of the last call that ended at once because its arguments were wrong
	failed  sync.Once     // to poison it from here
	listed  bool          // the watch was started
	call    collective    // the one in progress
	open    atomic.Int32  // flights that have begun and are not over
	plans   *plans
	nodes   *nodes // where the ranks are; nil: on one node
	team    team
	moves   []engine.Move // the step in progress

	schedules *[keptSchedules]noted // see plan
	draft     schedule.Schedule
}

// waited returns the number of the call in progress, or of the last call if that was a Dup or if collectives that go on
// while the program computes are not over; else 0.
func (s *collState) waited() uint64 {
	w := s.word.Load()
	if w&1 != 0 || s.open.Load() != 0 {
		return w >> 1
	}
	if x, ok := s.recent[w>>1%recentCalls].get(w >> 1); ok && kind(x.what) == kindDup {
		return w >> 1
	}
	return 0
}

// collective is one call in progress.
type collective struct {
	c     *Comm
	t     *engine.Type
	eng   *engine.Engine
	seq   uint64
	tag   int32
	kind  kind
	root  int
	op    uint8        // code of the operator; 0: none
	own   predefined   // the operator, in a reduction by one of this package
	bytes int          // length that all ranks must agree on; -1: none
	elem  *engine.Type // t of the call, while its messages are bytes by which a team is made; else nil

	by       bytewise // the operator
	wrapped  bytewise // see bytewiseOf
	commutes bool
	mem      [2][]byte // see carry.go
	rooms    []room
}

// enter begins a collective without an operator.
func (c *Comm) enter(k kind, root int, t *engine.Type, bytes int, err error) (*collective, error) {
	return c.begin(k, root, t, bytes, noOp, err)
}

// begin begins a collective. err is what is wrong with its arguments. It is returned only after the call has
// taken its place in the sequence: then the other ranks' next messages do not fit, and they notice.
func (c *Comm) begin(k kind, root int, t *engine.Type, bytes int, op uint8, err error) (*collective, error) {
	if e := c.joins(); e != nil {
		return nil, c.fail(k.String(), e)
	}
	if c.inter != nil {
		return nil, c.fail(k.String(), errInter)
	}
	seq, e := c.acquire()
	if e != nil {
		return nil, c.fail(k.String(), e)
	}
	if err == nil && k.rooted() && uint(root) >= uint(c.size) {
		err = fmt.Errorf("%w: root %d", errRoot, root)
	}
	s := &c.coll
	x := &s.call
	x.c, x.t, x.eng, x.seq, x.kind, x.root, x.op, x.bytes = c, t, c.env.eng, seq, k, root, op, bytes
	x.commutes = false
	sign := x.signature()
	x.tag = int32(k&^forms)<<26 | int32(seq&0x3ff)<<16 | int32(sign)
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

// leave ends the call. An error within it leaves the ranks in different states. So leave then poisons the
// communicator and tells all ranks.
func (x *collective) leave(err error) error {
	if err != nil {
		err = x.broken(x.name(), err)
	}
	x.c.coll.release(x.seq)
	return err
}

// broken poisons the communicator because of an error within the call.
func (x *collective) broken(name string, err error) error {
	c := x.c
	if errors.Is(err, ErrCanceled) {
		err = x.reason(err)
	}
	if errors.Is(err, ErrPoisoned) {
		c.spread(err)
	}
	err = x.late(c.fail(name, err))
	if !errors.Is(err, ErrAborted) && !errors.Is(err, ErrPoisoned) {
		c.poison(err)
		c.env.watch.tell(c.ctx)
	}
	if c.inter != nil && !errors.Is(err, ErrAborted) {
		c.inter.local.poison(err) // the others of this group may wait there
		c.env.watch.drain()       // this rank may know of it from there
		c.env.watch.tell(c.ctx)
	}
	return err
}

// late adds the end of this call's own context to an error that says that another rank gave up. Where both
// deadlines are the same, chance decides which comes first.
func (x *collective) late(err error) error {
	var e *Error
	if ctx := x.c.ctxt; ctx != nil && ctx.Err() != nil && errors.Is(err, ErrGaveUp) && errors.As(err, &e) {
		e.Err = fmt.Errorf("%w: %w; %w", ErrDeadline, context.Cause(ctx), e.Err)
	}
	return err
}

// reasonWithin is how long a rank waits to learn why another has given up.
const reasonWithin = 10 * time.Second

// reason waits for the reason why another rank has given a message up. err tells only that it has: the call
// failed there, and that rank is about to tell everybody why. A call with a deadline waits no longer than that.
func (x *collective) reason(err error) error {
	deadline := x.c.ctxt
	if deadline == nil {
		deadline = context.Background()
	}
	ctx, cancel := context.WithTimeout(deadline, reasonWithin)
	defer cancel()
	v := engine.NewView(ctx, x.eng)
	defer v.Stop()
	const never = 0 // no collective has this tag
	_, told := x.eng.Recv(engine.AnySource, x.c.ctx|1, never, nil, nil, v)
	switch {
	case errors.Is(told, ErrPoisoned), errors.Is(told, ErrAborted):
		return told
	case deadline.Err() != nil:
		return fmt.Errorf("%w, after %w", told, err)
	}
	return err
}

// name describes the call for errors.
func (x *collective) name() string {
	b := x.kind.String() + "("
	if x.kind.rooted() {
		b += fmt.Sprintf("root %d, ", x.root)
	}
	if x.bytes >= 0 && x.t != nil && x.kind.carries() {
		b += fmt.Sprintf("%d %s, ", x.bytes/x.t.Size, x.t.Name)
	}
	return fmt.Sprintf("%scall %d)", b, x.seq)
}

// signature hashes what all ranks must agree on.
func (x *collective) signature() uint16 {
	h := uint64(x.root+1)*0x9e3779b97f4a7c15 ^ uint64(x.bytes+1)*0xc2b2ae3d27d4eb4f ^ uint64(x.op)*0xbf58476d1ce4e5b9
	if x.t != nil {
		h ^= uint64(x.t.ID) * 0x165667b19e3779f9
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return uint16(h >> 48)
}

// poison makes the communicator fail on all its ranks. When poison returns, it has failed here, even if a
// caller and the watch find the cause at the same time: the program's next call must be told the cause.
func (c *core) poison(cause error) {
	c.coll.failed.Do(func() {
		c.env.watch.verdict(c, cause)
		m := c.members()
		for _, ctx := range c.contexts() {
			c.env.eng.Poison(ctx, m, cause)
		}
	})
}

// spread makes the communicator fail on this rank for the cause that another rank has told. One context of it has failed by then. The
// news for the others may be on the way, and the program's next call must not succeed before they are here.
func (c *core) spread(told error) {
	for _, ctx := range c.contexts() {
		c.env.eng.Poison(ctx, nil, told)
	}
}

// contexts are those of the communicator: of collectives that were begun, of those that are waited for, of messages.
func (c *core) contexts() [3]uint64 { return [3]uint64{c.begun, c.ctx | 1, c.ctx} }

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
