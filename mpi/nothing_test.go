package mpi_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Messages and collectives of no elements work everywhere: with nil, from every root, and they still keep order.
func TestNothing(t *testing.T) {
	mpitest.Run(t, 5, func(world *mpi.Comm) error {
		return onComms(world, func(c *mpi.Comm) error {
			next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
			none := make([]int, c.Size())
			st, err := mpi.Sendrecv[int, int](c, nil, next, 0, nil, prev, 0)
			if err := all(err, wantStatus(st, prev, 0, 0)); err != nil {
				return err
			}
			st, err = mpi.SendrecvView(c, mpi.View[int]{}, next, 1, mpi.View[int]{}, prev, 1)
			if err := all(err, wantStatus(st, prev, 1, 0)); err != nil {
				return err
			}
			for root := range c.Size() {
				if err := all(mpi.Bcast[int](c, nil, root), mpi.Gather[int](c, nil, nil, root), mpi.Gatherv[int](c, nil, nil, none, nil, root),
					mpi.Scatter[int](c, nil, nil, root), mpi.Scatterv[int](c, nil, none, nil, nil, root), mpi.Reduce[int](c, nil, nil, mpi.Sum, root)); err != nil {
					return fmt.Errorf("root %d: %w", root, err)
				}
				got, counts, err := mpi.GatherAlloc[int](c, nil, root)
				if c.Rank() == root {
					err = all(err, want("counts", counts, none))
				}
				if err := all(err, want("GatherAlloc", got, nil)); err != nil {
					return err
				}
			}
			return all(mpi.Allgather[int](c, nil, nil), mpi.Allgatherv[int](c, nil, nil, none, nil), mpi.Alltoall[int](c, nil, nil),
				mpi.Alltoallv[int](c, nil, none, nil, nil, none, nil), mpi.Alltoallw(c, make([]mpi.View[int], c.Size()), make([]mpi.View[int], c.Size())),
				mpi.Allreduce[int](c, nil, nil, mpi.Sum), mpi.ReduceScatterBlock[int](c, nil, nil, mpi.Sum), mpi.ReduceScatter[int](c, nil, nil, none, mpi.Sum),
				mpi.Scan[int](c, nil, nil, mpi.Sum), mpi.Exscan[int](c, nil, nil, mpi.Sum), mpi.AllreduceInPlace[affine](c, nil, composition))
		})
	})
}

// Hundreds of collectives are under way on one communicator, beside messages with any tag, and every rank ends them in
// an order of its own.
func TestManyInFlight(t *testing.T) {
	const many = 120
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		rs := make([]mpi.Request, 0, 3*many)
		sum, casted, heard := make([]int, many), make([]int, many), make([]int, many)
		next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		for i := range many {
			if c.Rank() == i%4 {
				casted[i] = 1000 + i
			}
			rs = append(rs, must(mpi.Irecv(c, heard[i:i+1], prev, mpi.AnyTag)), must(mpi.Iallreduce(c, []int{i + c.Rank()}, sum[i:i+1], mpi.Sum)),
				must(mpi.Ibcast(c, casted[i:i+1], i%4)))
			if err := mpi.SendValue(c, i, next, i); err != nil {
				return err
			}
		}
		rand.New(rand.NewPCG(5, uint64(c.Rank()))).Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
		for _, r := range rs {
			if _, err := r.Wait(); err != nil {
				return err
			}
		}
		index := func(i int) int { return i }
		return all(want("messages", heard, values2(many, index)), want("sums", sum, values2(many, func(i int) int { return 4*i + 6 })),
			want("broadcasts", casted, values2(many, func(i int) int { return 1000 + i })))
	})
}
