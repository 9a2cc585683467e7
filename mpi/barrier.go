package mpi

import (
	"reflect"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
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
	case coll.Levels:
		return x.barrierLevels()
	}
	s, known := x.plan(rule, 0, false)
	if !known {
		switch n, me := x.c.size, x.c.rank; rule.Algorithm {
		case coll.Central:
			schedule.BarrierCentral(s, me, n)
		case coll.Linear:
			schedule.BarrierLinear(s, me, n)
		case coll.Binomial:
			schedule.BarrierTree(s, me, n)
		default:
			schedule.Barrier(s, me, n)
		}
	}
	return x.carry(s, nil, nil)
}

// barrierLevels makes the ranks of each node tell their leader. The leaders meet and then tell their ranks.
func (x *collective) barrierLevels() error {
	nodes, s := x.c.coll.nodes, x.draft()
	switch {
	case nodes == nil:
		schedule.BarrierCentral(s, x.c.rank, x.c.size)
		return x.carry(s, nil, nil)
	case !x.leads():
		return x.follow(nil, nil)
	}
	if err := x.collect(nil, nil); err != nil {
		return err
	}
	schedule.Barrier(s, nodes.of[x.c.rank], len(nodes.ranks))
	s.Map(x.leader)
	if err := x.carry(s, nil, nil); err != nil {
		return err
	}
	return x.handOut(nil)
}
