package mpi_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// heard checks that messages and collectives on a communicator reach its ranks, and no others.
func heard(c *mpi.Comm) error {
	next, prev := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	got := []int{-1}
	st, err := mpi.Sendrecv(c, []int{c.WorldRank(c.Rank())}, next, 0, got, mpi.AnySource, mpi.AnyTag)
	if err := all(err, want("from the neighbour", []int{st.Source, got[0]}, []int{prev, c.WorldRank(prev)})); err != nil {
		return err
	}
	order := make([]int, c.Size())
	return all(mpi.Allgather(c, []int{c.WorldRank(c.Rank())}, order), want("ranks", order, worldRanks(c)))
}

// Halves of halves, down to single ranks, with a duplicate of a duplicate at each step: all of them live at once, and
// the lower ones go on when those above are freed.
func TestDeepTree(t *testing.T) {
	mpitest.Run(t, 8, func(c *mpi.Comm) error {
		line := []*mpi.Comm{c}
		for at := c; at.Size() > 1; at = line[len(line)-1] {
			half, err := at.Split(at.Rank()*2/at.Size(), -at.Rank())
			if err != nil {
				return err
			}
			dup, err := half.Dup()
			if err != nil {
				return err
			}
			again, err := dup.Dup()
			if err != nil {
				return err
			}
			line = append(line, half, dup, again)
		}
		for _, d := range line {
			if err := heard(d); err != nil {
				return fmt.Errorf("%v: %w", d, err)
			}
		}
		for i, d := range line[1:] { // from the top
			if err := d.Free(); err != nil {
				return err
			}
			for _, e := range line[i+2:] {
				if err := heard(e); err != nil {
					return fmt.Errorf("%v, when %v is freed: %w", e, d, err)
				}
			}
		}
		return heard(c)
	})
}

// A split puts ranks together by colour, in the order of their keys, and of their ranks where keys are alike.
func TestSplitOrder(t *testing.T) {
	keys := []int{0, 1, -1, 7, -1 << 63, 1<<63 - 1}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(rt, "ranks")
		color := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 1<<31 - 1, mpi.Undefined}), n, n).Draw(rt, "colours")
		key := rapid.SliceOfN(rapid.SampledFrom(keys), n, n).Draw(rt, "keys")
		mpitest.Run(drawn{t, rt}, n, func(c *mpi.Comm) error {
			me := c.Rank()
			d, err := c.Split(color[me], key[me])
			if err != nil || color[me] == mpi.Undefined {
				return all(err, want("without a colour", []bool{d == nil}, []bool{color[me] == mpi.Undefined}))
			}
			var expect []int
			for r := range n {
				if color[r] == color[me] {
					expect = append(expect, r)
				}
			}
			slices.SortStableFunc(expect, func(a, b int) int { return cmp.Compare(key[a], key[b]) })
			return all(want("members", worldRanks(d), expect), heard(d), d.Free())
		})
	})
}

// Groups that were never apart meet: of single ranks, of groups made by merging, again and again.
func TestMergeAgain(t *testing.T) {
	mpitest.Run(t, 6, func(c *mpi.Comm) error {
		at, err := c.Self().Dup()
		if err != nil {
			return err
		}
		for size := 1; size < c.Size(); size++ { // the lowest ranks, and the next one alone
			if c.Rank() > size {
				continue
			}
			other, alone := size, c.Rank() == size
			if alone {
				other = 0
			}
			inter, err := mpi.IntercommCreate(at, 0, c, other, size)
			if err != nil {
				return err
			}
			if got := []int{inter.Size(), inter.RemoteSize()}; alone {
				err = want("sizes", got, []int{1, size})
			} else {
				err = want("sizes", got, []int{size, 1})
			}
			both, merr := inter.Merge(alone)
			if err := all(err, merr, heard(both), at.Free(), inter.Free()); err != nil {
				return err
			}
			at = both
		}
		return all(want("in the end", worldRanks(at), []int{0, 1, 2, 3, 4, 5}), heard(at), at.Free())
	})
}

// Where both groups say the same, one of them comes first, on all ranks alike.
func TestMergeAlike(t *testing.T) {
	for _, high := range []bool{false, true} {
		mpitest.Run(t, 5, func(c *mpi.Comm) error {
			inter, err := sides(c, 2)
			if err != nil {
				return err
			}
			both, err := inter.Merge(high)
			if err != nil {
				return err
			}
			order := worldRanks(both)
			if !slices.Equal(order, []int{1, 0, 2, 3, 4}) && !slices.Equal(order, []int{2, 3, 4, 1, 0}) {
				return fmt.Errorf("merged: %v", order)
			}
			return all(heard(both), both.Free(), inter.Free())
		})
	}
}

// Messages cross between groups in both directions at once, of all lengths, to every rank, and probes tell the rank in
// the other group.
func TestInterBothWays(t *testing.T) {
	mpitest.Run(t, 5, func(c *mpi.Comm) error {
		inter, err := sides(c, 2)
		if err != nil {
			return err
		}
		var rs []mpi.Request
		for r := range inter.RemoteSize() {
			for i, n := range sizes {
				rs = append(rs, must(mpi.Isend(inter, values(n, inter.Rank(), func(i int) int32 { return int32(i) }), r, i)))
			}
		}
		for range inter.RemoteSize() {
			for i, n := range sizes {
				m, st, err := inter.Mprobe(mpi.AnySource, i)
				if err != nil {
					return err
				}
				got := make([]int32, n)
				if _, err := mpi.Mrecv(m, got); err != nil {
					return err
				}
				if err := all(wantStatus(st, st.Source, i, n), want("across", got, values(n, st.Source, func(i int) int32 { return int32(i) }))); err != nil {
					return err
				}
			}
		}
		_, err = mpi.Waitall(rs)
		return all(err, inter.Free())
	})
}

// A grid without dimensions is one point, and the others are outside.
func TestCartOfNoDimensions(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		cart, err := c.Cart(nil, nil, false)
		if err != nil || c.Rank() > 0 {
			return all(err, want("outside", []bool{cart == nil}, []bool{true}))
		}
		at, err := cart.Coords(0)
		rank, rerr := cart.RankAt()
		_, _, serr := cart.Shift(0, 1)
		sub, suberr := cart.Sub(nil)
		if err := all(err, rerr, suberr, want("coordinates", at, nil), want("rank and sizes", []int{rank, cart.Size(), sub.Size()}, []int{0, 1, 1})); err != nil {
			return err
		}
		return all(wantErr("a shift along no dimension", serr, mpi.ErrDims), mpi.NeighborAllgather(cart, []int{1}, []int{}), mpi.NeighborAlltoall(cart, []int{}, []int{}),
			mpi.Barrier(cart.Comm), sub.Free(), cart.Free())
	})
}

// A rank is its own neighbour, on both sides, where a periodic dimension has one point.
func TestOwnNeighbour(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		cart, err := c.Cart([]int{1, 1}, []bool{true, false}, true)
		if err != nil {
			return err
		}
		src, dst, err := cart.Shift(0, 5)
		if err := all(err, want("shift", []int{src, dst}, []int{0, 0})); err != nil {
			return err
		}
		got := []int{-1, -1, -1, -1}
		return all(mpi.NeighborAlltoall(cart, []int{10, 11, 12, 13}, got), want("from below and above", got, []int{11, 10, -1, -1}),
			mpi.NeighborAllgather(cart, []int{7}, got), want("from itself", got, []int{7, 7, -1, -1}), cart.Free())
	})
}
