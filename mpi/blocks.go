package mpi

import "fmt"

// blocks says where in a buffer the share of each rank lies, in elements.
type blocks struct {
	total  int
	size   int   // equal: elements of each
	counts []int // explicit, with displs
	displs []int
	whole  bool // all have the same block
}

// equal gives each of n ranks size elements.
func equal(size, n int) blocks { return blocks{size: size, total: size * n} }

// oneBlock gives all ranks the same elements.
func oneBlock(size int) blocks { return blocks{size: size, total: size, whole: true} }

// at returns the first element of rank i's block and the one after its last.
func (b *blocks) at(i int) (lo, hi int) {
	switch {
	case b.counts != nil:
		return b.displs[i], b.displs[i] + b.counts[i]
	case b.whole:
		return 0, b.size
	}
	return i * b.size, (i + 1) * b.size
}

// of returns rank i's block of p, which has elements of the given size.
func (b *blocks) of(p []byte, size, i int) []byte {
	lo, hi := b.at(i)
	return p[lo*size : hi*size]
}

// explicit checks the counts and displacements of a call of the v family: there is one for each of n ranks, and
// every block lies within a buffer of length have; one without elements lies anywhere. If displs is nil, the blocks are
// adjacent. tmp has room for n displacements that are not the caller's.
func explicit(what string, n, have int, counts, displs []int, tmp []int) (blocks, error) {
	if len(counts) != n || (displs != nil && len(displs) != n) {
		return blocks{}, fmt.Errorf("%w: %d counts and %d displacements of %s for %d ranks", ErrCount, len(counts), len(displs), what, n)
	}
	next, ours := 0, displs == nil
	if ours {
		displs = tmp[:n]
		for i, k := range counts {
			displs[i] = next
			next += k
		}
	}
	for i, k := range counts {
		if k == 0 && (displs[i] < 0 || displs[i] > have) {
			if !ours {
				copy(tmp, displs)
				displs, ours = tmp[:n], true
			}
			displs[i] = 0
		}
		if k < 0 || displs[i] < 0 || displs[i] > have || k > have-displs[i] {
			return blocks{}, fmt.Errorf("%w: the block of rank %d in %s is [%d:%d], of %d elements", ErrCount, i, what, displs[i], displs[i]+k, have)
		}
	}
	return blocks{counts: counts, displs: displs}, nil
}
