package mpi

import "fmt"

// blocks says where in a buffer the share of each rank lies, in elements.
type blocks struct {
	n      int
	total  int   // evenly: elements to share out
	size   int   // equal: elements of each
	counts []int // explicit, with displs
	displs []int
}

// evenly divides total elements among n ranks, as equally as possible.
func evenly(total, n int) blocks { return blocks{n: n, total: total} }

// equal gives each of n ranks size elements.
func equal(size, n int) blocks { return blocks{n: n, size: size, total: size * n} }

// at returns the first element of rank i's block and the one after its last.
func (b *blocks) at(i int) (lo, hi int) {
	switch {
	case b.counts != nil:
		return b.displs[i], b.displs[i] + b.counts[i]
	case b.size > 0:
		return i * b.size, (i + 1) * b.size
	}
	q, r := b.total/b.n, b.total%b.n // the first r get one more
	return i*q + min(i, r), (i+1)*q + min(i+1, r)
}

// of returns rank i's block of p, which has elements of the given size.
func (b *blocks) of(p []byte, size, i int) []byte {
	lo, hi := b.at(i)
	return p[lo*size : hi*size]
}

// orAll is of; of no blocks it returns p.
func (b *blocks) orAll(p []byte, size, i int) []byte {
	if b == nil {
		return p
	}
	return b.of(p, size, i)
}

// span returns the blocks lo..hi-1 of p, where they are adjacent.
func (b *blocks) span(p []byte, size, lo, hi int) []byte {
	from, _ := b.at(lo)
	_, to := b.at(hi - 1)
	return p[from*size : to*size]
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
	return blocks{n: n, counts: counts, displs: displs}, nil
}
