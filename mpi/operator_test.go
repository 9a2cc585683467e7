package mpi_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// sumOrMax is another operator on the last rank.
func sumOrMax(c *mpi.Comm) mpi.Op[int] {
	if c.Rank() == c.Size()-1 {
		return mpi.Max[int]
	}
	return mpi.Sum[int]
}

// Operators of programs that are written in several places count as one.
func TestOperatorsOfPrograms(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		op := mpi.OpFunc(func(dst, src []int) { dst[0] += src[0] }, true)
		if c.Rank() == 0 {
			op = mpi.OpFunc(func(dst, src []int) { dst[0] += src[0] }, true)
		}
		sum := []int{c.Rank() + 1}
		return all(mpi.AllreduceInPlace(c, sum, op), want("sum", sum, []int{3}))
	})
}

// An operator that panics, or ends its goroutine, ends its call on all ranks, and the
// communicator.
func TestOperatorPanics(t *testing.T) {
	for name, call := range map[string]func(c *mpi.Comm, op mpi.Op[int]) error{
		"Allreduce":     func(c *mpi.Comm, op mpi.Op[int]) error { return mpi.AllreduceInPlace(c, make([]int, 4), op) },
		"Reduce":        func(c *mpi.Comm, op mpi.Op[int]) error { return mpi.ReduceInPlace(c, make([]int, 4), op, 1) },
		"Scan":          func(c *mpi.Comm, op mpi.Op[int]) error { return mpi.ScanInPlace(c, make([]int, 4), op) },
		"Exscan":        func(c *mpi.Comm, op mpi.Op[int]) error { return mpi.ExscanInPlace(c, make([]int, 4), op) },
		"ReduceScatter": func(c *mpi.Comm, op mpi.Op[int]) error { return mpi.ReduceScatterBlockInPlace(c, make([]int, 4), op) },
	} {
		for _, way := range []func(){func() { panic("no flour") }, runtime.Goexit} {
			t.Run(name, func(t *testing.T) {
				for _, table := range tables {
					var broken atomic.Bool
					breaks := func(dst, src []int) {
						if broken.CompareAndSwap(false, true) { // on one rank
							way()
						}
					}
					mpitest.Run(t, 4, func(world *mpi.Comm) error {
						c, err := oneInUse(world, table)
						if err != nil {
							return err
						}
						ended := make(chan struct{})
						err = mpi.ErrOp // where the operator has ended the call
						go func() {
							defer close(ended)
							defer func() { _ = recover() }()
							err = call(c, mpi.OpFunc(breaks, true))
						}()
						<-ended
						if err == nil { // it had no need of that rank
							err = mpi.Barrier(c)
						}
						next := mpi.Barrier(c)
						return all(wantErr("the call", err, mpi.ErrOp), wantErr("the next", next, mpi.ErrPoisoned),
							wantErr("the next", next, mpi.ErrOp), mpi.Barrier(world))
					})
				}
			})
		}
	}
}
