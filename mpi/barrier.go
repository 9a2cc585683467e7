package mpi

import (
	"reflect"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Barrier returns when all ranks of c have called it. Errors: ErrComm,
// ErrMismatch, ErrPeerFailed, ErrDeadline. (MPI-4.1, chapter 6.3)
func Barrier(c *Comm) error {
	if c.crosses() {
		return crossBarrier(c)
	}
	x, err := c.enter(kindBarrier, noRoot, &basics[reflect.Uint8], 0, nil)
	if err != nil {
		return err
	}
	return x.leave(x.barrier())
}

func (x *collective) barrier() error {
	if x.c.size == 1 {
		return nil
	}
	rule, err := x.choose(0)
	if err != nil {
		return err
	}
	switch rule.Algorithm {
	case coll.Shared:
		return x.take(engine.Turn{Need: engine.Everybody})
	case coll.Central:
		return x.barrierCentral()
	case coll.Linear:
		none := equal(0, x.c.size)
		return x.spread(nil, &none, nil, &none)
	case coll.Binomial:
		return x.barrierTree()
	case coll.Levels:
		return x.barrierLevels()
	}
	return x.disseminate(x.c.size, x.c.rank, nil)
}

// barrierCentral makes all ranks tell rank 0, which then tells all. Where ranks share CPUs, none has to run
// more than twice.
func (x *collective) barrierCentral() error {
	if x.c.rank != 0 {
		return x.exchange(0, nil, 0, nil)
	}
	none := equal(0, x.c.size)
	if err := x.recvAll(nil, none); err != nil {
		return err
	}
	return x.sendAll(nil, none)
}

// barrierTree is a barrierCentral up and down the binomial tree.
func (x *collective) barrierTree() error {
	n, me := x.c.size, x.c.rank
	bit := 1
	for ; bit < n && me&bit == 0; bit *= 2 {
		if me+bit < n {
			x.get(me+bit, nil)
		}
	}
	if err := x.run(); err != nil {
		return err
	}
	if me != 0 {
		if err := x.exchange(me-bit, nil, me-bit, nil); err != nil {
			return err
		}
	}
	for bit /= 2; bit > 0; bit /= 2 {
		if me+bit < n {
			x.put(me+bit, nil)
		}
	}
	return x.run()
}

// disseminate is the dissemination barrier of n ranks; this one is number me. In round k each rank hears from
// the one 2^k below. After ceil(log2 n) rounds it has heard of everybody. The ranks are those of the
// communicator, or the first ones of its nodes.
func (x *collective) disseminate(n, me int, s *nodes) error {
	for d := 1; d < n; d *= 2 {
		dst, src := (me+d)%n, (me-d+n)%n
		if s != nil {
			dst, src = s.ranks[dst][0], s.ranks[src][0]
		}
		if err := x.exchange(dst, nil, src, nil); err != nil {
			return err
		}
	}
	return nil
}

// barrierLevels makes the ranks of each node tell their leader. The leaders meet and then tell their ranks.
func (x *collective) barrierLevels() error {
	s := x.c.coll.nodes
	if s == nil {
		return x.barrierCentral()
	}
	if !x.leads() {
		return x.follow(nil, nil)
	}
	if err := x.collect(nil, nil); err != nil {
		return err
	}
	if err := x.disseminate(len(s.ranks), s.of[x.c.rank], s); err != nil {
		return err
	}
	return x.handOut(nil)
}
