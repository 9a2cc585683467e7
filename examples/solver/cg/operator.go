package cg

import (
	"slices"
	"sort"
)

// Operator multiplies the distributed matrix with a distributed vector. A rank holds its own entries of a
// vector. Behind them it holds the halo: the entries of other ranks that its rows refer to. The halo is in
// ascending order of rows, and so grouped by owner:
//
//	own entries of rank 3 | from rank 1 | from rank 2 | from rank 5
//
// The matrix is symmetric: this rank needs x[j] for its row i exactly if the owner of row j needs x[i]. So both
// sides know who sends what without asking.
type Operator struct {
	Neighbours []Neighbour // ascending by rank
	rows       int
	ptr        []int
	col        []int32 // positions in the local vector
	val        []float64
	diagonal   []float64
	halo       int     // entries of other ranks
	inner      []int32 // rows that need nothing of others
	outer      []int32 // the other ones
}

// NewOperator takes over the rows b; starts are the first rows of all ranks.
func NewOperator(b *Block, starts []int) (*Operator, error) {
	diagonal, err := b.diagonal()
	if err != nil {
		return nil, err
	}
	a := &Operator{rows: b.rows(), ptr: b.Ptr, val: b.Val, col: make([]int32, len(b.Col)), diagonal: diagonal}
	last := int32(b.First + a.rows)
	mine := func(j int32) bool { return j >= int32(b.First) && j < last }

	var foreign []int32
	for _, j := range b.Col {
		if !mine(j) {
			foreign = append(foreign, j)
		}
	}
	slices.Sort(foreign)
	foreign = slices.Compact(foreign)
	a.halo = len(foreign)
	a.meet(foreign, starts)

	for i := range a.rows {
		outer := false
		for k := b.Ptr[i]; k < b.Ptr[i+1]; k++ {
			if j := b.Col[k]; mine(j) {
				a.col[k] = j - int32(b.First)
			} else {
				at, _ := slices.BinarySearch(foreign, j)
				a.col[k] = int32(a.rows + at)
				a.share(a.rows+at, int32(i))
				outer = true
			}
		}
		if outer {
			a.outer = append(a.outer, int32(i))
		} else {
			a.inner = append(a.inner, int32(i))
		}
	}
	for i := range a.Neighbours {
		n := &a.Neighbours[i]
		n.buffer = make([]float64, len(n.give))
	}
	return a, nil
}

// meet makes the list of neighbours from the rows of others that are needed.
func (a *Operator) meet(foreign []int32, starts []int) {
	for at := 0; at < len(foreign); {
		owner := sort.SearchInts(starts, int(foreign[at])+1) - 1
		n := Neighbour{Rank: owner, from: a.rows + at}
		for at < len(foreign) && int(foreign[at]) < starts[owner+1] {
			at++
		}
		n.to = a.rows + at
		a.Neighbours = append(a.Neighbours, n)
	}
}

// share notes that the owner of the halo's entry at needs own entry i, too.
// Rows come in ascending order.
func (a *Operator) share(at int, i int32) {
	k := sort.Search(len(a.Neighbours), func(k int) bool { return a.Neighbours[k].to > at })
	n := &a.Neighbours[k]
	if len(n.give) == 0 || n.give[len(n.give)-1] != i {
		n.give = append(n.give, i)
	}
}

// vector returns a vector of zeros with room for the halo.
func (a *Operator) vector() []float64 { return make([]float64, a.rows+a.halo) }

// multiply computes the given rows of y = A x. It takes the entries of a row in the order of the whole matrix's
// columns, whatever ranks own them. Three entries a turn cost fewer instructions, which helps most if something
// else shares the processor's core.
func (a *Operator) multiply(y, x []float64, rows []int32) {
	ptr, cols, vals := a.ptr, a.col, a.val
	for _, i := range rows {
		k, end := ptr[i], ptr[i+1]
		col, val := cols[:end], vals[:end]
		sum := 0.0
		for ; k < len(col)-2; k += 3 {
			sum += float64(val[k] * x[uint32(col[k])])
			sum += float64(val[k+1] * x[uint32(col[k+1])])
			sum += float64(val[k+2] * x[uint32(col[k+2])])
		}
		for ; k < len(col); k++ {
			sum += float64(val[k] * x[uint32(col[k])])
		}
		y[i] = sum
	}
}
