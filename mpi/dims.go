package mpi

import (
	"fmt"
	"math"
)

// Dims divides n ranks among the dimensions of a grid, as evenly as possible. fixed has a number for each
// dimension: one that is given, or 0 for one to be found. Those that are found do not rise. Errors: ErrDims if n is
// no multiple of those that are given, or a number makes no sense. (MPI-4.1, chapter 8.5.2, MPI_Dims_create)
func Dims(n int, fixed []int) ([]int, error) {
	rest, open := n, 0
	for _, d := range fixed {
		switch {
		case d < 0 || d > 0 && rest%d != 0:
			return nil, (*Comm)(nil).fail("Dims", fmt.Errorf("%w: %d ranks, and %v are given", ErrDims, n, fixed))
		case d == 0:
			open++
		default:
			rest /= d
		}
	}
	if n < 1 || open == 0 && rest != 1 {
		return nil, (*Comm)(nil).fail("Dims", fmt.Errorf("%w: %d ranks, and %v are given", ErrDims, n, fixed))
	}
	found, dims := factors(rest, open, rest), make([]int, len(fixed))
	for i, d := range fixed {
		if dims[i] = d; d == 0 {
			dims[i], found = found[0], found[1:]
		}
	}
	return dims, nil
}

// factors returns k numbers whose product is n, none above most, in an order that does not rise. The first is as
// small as possible, then the second, and so on. It returns nil if there are none.
func factors(n, k, most int) []int {
	if k == 0 {
		if n == 1 {
			return []int{}
		}
		return nil
	}
	least := max(1, int(math.Pow(float64(n), 1/float64(k))-1e-9))
	for f := least; f <= min(n, most); f++ {
		if n%f != 0 {
			continue
		}
		if rest := factors(n/f, k-1, f); rest != nil {
			return append([]int{f}, rest...)
		}
	}
	return nil
}
