package main

import (
	"fmt"
	"sort"
)

// block is some consecutive rows of a symmetric matrix of n rows, compressed:
// row i of the block is row first+i of the matrix and has the entries
// ptr[i] <= k < ptr[i+1], in columns col[k], ascending, with values val[k].
type block struct {
	n     int
	first int
	ptr   []int
	col   []int32
	val   []float64
}

func (b *block) rows() int { return len(b.ptr) - 1 }

// part returns rows [first, last) of b as a block of its own, sharing memory.
func (b *block) part(first, last int) *block {
	lo, hi := b.ptr[first-b.first], b.ptr[last-b.first]
	p := &block{n: b.n, first: first, ptr: make([]int, last-first+1), col: b.col[lo:hi], val: b.val[lo:hi]}
	for i := range p.ptr {
		p.ptr[i] = b.ptr[first-b.first+i] - lo
	}
	return p
}

// diagonal returns the diagonal entries of the rows. Preconditioning divides by
// them, and a positive definite matrix has none that is not positive.
func (b *block) diagonal() ([]float64, error) {
	d := make([]float64, b.rows())
	for i := range d {
		row := b.first + i
		cols := b.col[b.ptr[i]:b.ptr[i+1]]
		k := sort.Search(len(cols), func(k int) bool { return int(cols[k]) >= row })
		if k < len(cols) && int(cols[k]) == row {
			d[i] = b.val[b.ptr[i]+k]
		}
		if !(d[i] > 0) {
			return nil, fmt.Errorf("the diagonal entry of row %d is %g: not a positive definite matrix", row+1, d[i])
		}
	}
	return d, nil
}

// partition cuts rows 0..n-1 into one consecutive part for each of size ranks:
// rank r gets rows starts[r] to starts[r+1]-1, at least one, with about the
// same number of nonzeros each; nonzeros(i) is that of row i.
func partition(n, size int, nonzeros func(row int) int) (starts []int, err error) {
	if size > n {
		return nil, fmt.Errorf("%d ranks for a matrix of %d rows: a rank needs at least one row", size, n)
	}
	total := 0
	for i := range n {
		total += nonzeros(i)
	}
	starts = make([]int, size+1)
	row, seen := 0, 0
	for r := 1; r < size; r++ {
		// Leave a row for each of the ranks to come, and one for the last one.
		for row < n-(size-r) && (row <= starts[r-1] || seen < total/size*r+total%size*r/size) {
			seen += nonzeros(row)
			row++
		}
		starts[r] = row
	}
	starts[size] = n
	return starts, nil
}
