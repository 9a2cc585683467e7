package cg

import (
	"fmt"
	"sort"
)

// Block is some consecutive rows of a symmetric matrix of N rows, compressed. Row i of the block is row First+i
// of the matrix. Its entries are Ptr[i] <= k < Ptr[i+1], in ascending columns Col[k], with values Val[k].
type Block struct {
	N     int
	First int
	Ptr   []int
	Col   []int32
	Val   []float64
}

func (b *Block) rows() int { return len(b.Ptr) - 1 }

// Part returns rows [first, last) of b as a block of its own, sharing memory.
func (b *Block) Part(first, last int) *Block {
	lo, hi := b.Ptr[first-b.First], b.Ptr[last-b.First]
	p := &Block{N: b.N, First: first, Ptr: make([]int, last-first+1), Col: b.Col[lo:hi], Val: b.Val[lo:hi]}
	for i := range p.Ptr {
		p.Ptr[i] = b.Ptr[first-b.First+i] - lo
	}
	return p
}

// diagonal returns the diagonal entries of the rows. Preconditioning divides by
// them, and a positive definite matrix has none that is not positive.
func (b *Block) diagonal() ([]float64, error) {
	d := make([]float64, b.rows())
	for i := range d {
		row := b.First + i
		cols := b.Col[b.Ptr[i]:b.Ptr[i+1]]
		k := sort.Search(len(cols), func(k int) bool { return int(cols[k]) >= row })
		if k < len(cols) && int(cols[k]) == row {
			d[i] = b.Val[b.Ptr[i]+k]
		}
		if !(d[i] > 0) {
			return nil, fmt.Errorf("the diagonal entry of row %d is %g: not a positive definite matrix", row+1, d[i])
		}
	}
	return d, nil
}

// Partition cuts rows 0..n-1 into one consecutive part for each of size ranks:
// rank r gets rows starts[r] to starts[r+1]-1, at least one, with about the
// same number of nonzeros each; nonzeros(i) is that of row i.
func Partition(n, size int, nonzeros func(row int) int) (starts []int, err error) {
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
