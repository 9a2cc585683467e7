package mpi_test

import (
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"pgregory.net/rapid"
)

// concat is the concatenation of all ranks' contributions of length k.
func concat(n, k int) []affine {
	var v []affine
	for r := range n {
		v = append(v, mine(r, k)...)
	}
	return v
}

func TestGatherScatter(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		k, root := lengths.Draw(t, "length"), rapid.IntRange(0, n-1).Draw(t, "root")
		return func(c *mpi.Comm) error {
			me, whole := c.Rank(), concat(n, k)
			var recv []affine
			buf := mine(me, k)
			if me == root {
				recv = make([]affine, n*k)
				buf = slices.Clone(whole)
				clear(buf[:me*k])
				clear(buf[(me+1)*k:])
			}
			if err := all(mpi.Gather(c, mine(me, k), recv, root), mpi.GatherInPlace(c, buf, root)); err != nil {
				return err
			}
			if me == root {
				if err := all(want("Gather", recv, whole), want("GatherInPlace", buf, whole)); err != nil {
					return err
				}
			}
			got := make([]affine, k)
			if me != root {
				buf = make([]affine, k)
			}
			if err := all(mpi.Scatter(c, recv, got, root), mpi.ScatterInPlace(c, buf, root)); err != nil {
				return err
			}
			if me == root {
				return all(want("Scatter", got, mine(me, k)), want("ScatterInPlace", buf, whole))
			}
			return all(want("Scatter", got, mine(me, k)), want("ScatterInPlace", buf, mine(me, k)))
		}
	})
}

// scattered lays n blocks out with gaps, in some order, and returns counts,
// displacements and the length of the whole.
func scattered(t *rapid.T, n int) (counts, displs []int, total int) {
	counts, displs = make([]int, n), make([]int, n)
	for _, r := range rapid.Permutation(values2(n, func(i int) int { return i })).Draw(t, "order") {
		counts[r] = rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(0, 3000)).Draw(t, "count")
		displs[r] = total + rapid.IntRange(0, 3).Draw(t, "gap")
		total = displs[r] + counts[r]
	}
	return counts, displs, total
}

// laidOut is what the whole looks like.
func laidOut(counts, displs []int, total int) []affine {
	v := make([]affine, total)
	for r, k := range counts {
		copy(v[displs[r]:], mine(r, k))
	}
	return v
}

func TestGathervScatterv(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		counts, displs, total := scattered(t, n)
		root := rapid.IntRange(0, n-1).Draw(t, "root")
		return func(c *mpi.Comm) error {
			me := c.Rank()
			own, whole := mine(me, counts[me]), laidOut(counts, displs, total)
			if me != root {
				got, buf := make([]affine, len(own)), make([]affine, len(own))
				return all(
					mpi.Gatherv(c, own, nil, nil, nil, root),
					mpi.GathervInPlace(c, own, nil, nil, root),
					mpi.Scatterv(c, nil, nil, nil, got, root),
					mpi.ScattervInPlace(c, buf, nil, nil, root),
					want("Scatterv", got, own), want("ScattervInPlace", buf, own))
			}
			recv, buf, got := make([]affine, total), make([]affine, total), make([]affine, len(own))
			copy(buf[displs[me]:], own)
			return all(
				mpi.Gatherv(c, own, recv, counts, displs, root),
				mpi.GathervInPlace(c, buf, counts, displs, root),
				want("Gatherv", recv, whole), want("GathervInPlace", buf, whole),
				mpi.Scatterv(c, recv, counts, displs, got, root),
				mpi.ScattervInPlace(c, buf, counts, displs, root),
				want("Scatterv", got, own), want("ScattervInPlace", buf, whole))
		}
	})
}

func TestAllgather(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		k := lengths.Draw(t, "length")
		counts, displs, total := scattered(t, n)
		return func(c *mpi.Comm) error {
			me, whole := c.Rank(), concat(n, k)
			recv, buf := make([]affine, n*k), make([]affine, n*k)
			copy(buf[me*k:], mine(me, k))
			if err := all(mpi.Allgather(c, mine(me, k), recv), mpi.AllgatherInPlace(c, buf),
				want("Allgather", recv, whole), want("AllgatherInPlace", buf, whole)); err != nil {
				return err
			}
			own := mine(me, counts[me])
			recv, buf, whole = make([]affine, total), make([]affine, total), laidOut(counts, displs, total)
			copy(buf[displs[me]:], own)
			if err := all(mpi.Allgatherv(c, own, recv, counts, displs), mpi.AllgathervInPlace(c, buf, counts, displs),
				want("Allgatherv", recv, whole), want("AllgathervInPlace", buf, whole)); err != nil {
				return err
			}
			starts, sum := displacements(counts) // and without displacements
			recv = make([]affine, sum)
			return all(mpi.Allgatherv(c, own, recv, counts, nil), want("adjacent", recv, laidOut(counts, starts, sum)))
		}
	})
}

// parcel is what rank from sends rank to: k elements.
func parcel(from, to, k int) []affine { return mine(1000*from+to, k) }

func TestAlltoall(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		k := rapid.OneOf(rapid.IntRange(0, 20), rapid.SampledFrom([]int{100, 2000})).Draw(t, "length")
		return func(c *mpi.Comm) error {
			var send, expect []affine
			for r := range n {
				send = append(send, parcel(c.Rank(), r, k)...)
				expect = append(expect, parcel(r, c.Rank(), k)...)
			}
			recv := make([]affine, n*k)
			return all(mpi.Alltoall(c, send, recv), want("Alltoall", recv, expect),
				mpi.AlltoallInPlace(c, send), want("AlltoallInPlace", send, expect))
		}
	})
}

func TestAlltoallv(t *testing.T) {
	property(t, func(t *rapid.T, n int) func(*mpi.Comm) error {
		count := make([][]int, n) // from, to
		for i := range count {
			count[i] = values2(n, func(int) int { return rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 2500)).Draw(t, "count") })
		}
		return func(c *mpi.Comm) error {
			me := c.Rank()
			var send, expect []affine
			rcounts, both := make([]int, n), make([]int, n)
			for r := range n {
				send = append(send, parcel(me, r, count[me][r])...)
				rcounts[r] = count[r][me]
				expect = append(expect, parcel(r, me, rcounts[r])...)
				both[r] = min(count[me][r], count[r][me])
			}
			recv := make([]affine, len(expect))
			if err := all(mpi.Alltoallv(c, send, count[me], nil, recv, rcounts, nil), want("Alltoallv", recv, expect)); err != nil {
				return err
			}
			var buf []affine
			expect = nil
			for r, k := range both {
				buf = append(buf, parcel(me, r, k)...)
				expect = append(expect, parcel(r, me, k)...)
			}
			return all(mpi.AlltoallvInPlace(c, buf, both, nil), want("AlltoallvInPlace", buf, expect))
		}
	})
}
