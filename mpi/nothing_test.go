package mpi_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// A block of no elements lies anywhere, whatever its displacement says; the displacements stay the caller's.
func TestEmptyBlocksLieAnywhere(t *testing.T) {
	const n = 3
	mpitest.Run(t, n, func(c *mpi.Comm) error {
		counts, displs := []int{0, 2, 0}, []int{1 << 40, 1, -7} // only rank 1 has elements
		own := func() []int { return values(counts[c.Rank()], 4, func(i int) int { return i }) }
		sent := values(2, 4, func(i int) int { return i })
		whole := []int{-1, 0, 0}
		expect := []int{-1, sent[0], sent[1]}
		full := func() []int { return slices.Clone(whole) }
		a, b, d, e, f := full(), full(), full(), full(), make([]int, counts[c.Rank()])
		some := []int{0, 0, 0} // what goes to each: rank 1 sends to itself
		if c.Rank() == 1 {
			some = counts
		}
		// On a ring each rank hears of both neighbours.
		cart := must(c.Cart([]int{n}, []bool{true}, false))
		left, right := (c.Rank()+n-1)%n, (c.Rank()+1)%n
		heard := []int{counts[left], counts[right]}
		err := all(mpi.Allgatherv(c, own(), a, counts, displs), mpi.Gatherv(c, own(), b, counts, displs, 1), errOf(must(mpi.Iallgatherv(c, own(), d, counts, displs)).Wait()),
			mpi.Alltoallv(c, expect, some, displs, e, some, displs), mpi.Scatterv(c, expect, counts, displs, f, 1))
		if err := all(err, want("Allgatherv", a, expect), want("Iallgatherv", d, expect), want("Scatterv", f, own()), want("displacements", displs, []int{1 << 40, 1, -7})); err != nil {
			return err
		}
		if c.Rank() == 1 {
			err = all(want("Gatherv", b, expect), want("Alltoallv", e, expect))
		}
		g, at := full(), []int{-3, 99}
		for i, k := range heard {
			if k > 0 {
				at[i] = 1
			}
		}
		expectHeard := full()
		if heard[0]+heard[1] > 0 {
			expectHeard = expect
		}
		return all(err, mpi.NeighborAllgatherv(cart, own(), g, heard, at), want("NeighborAllgatherv", g, expectHeard),
			wantErr("a block outside", mpi.Allgatherv(c, own(), a, counts, []int{0, 2, 0}), mpi.ErrCount))
	})
}
