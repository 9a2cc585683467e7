package main

import (
	"slices"
	"sort"

	"github.com/gorun-mpi/gorun/examples/internal/clock"
	"github.com/gorun-mpi/gorun/mpi"
)

// operator multiplies the distributed matrix with a distributed vector. A rank
// holds of a vector its own entries and, behind them, those of other ranks that
// its rows refer to, the halo, ascending by row and so grouped by owner:
//
//	own entries of rank 3 | from rank 1 | from rank 2 | from rank 5
//
// The matrix is symmetric: I need x[j] for my row i just where the owner of row
// j needs x[i]. So both sides know who sends what without asking.
type operator struct {
	c        *mpi.Comm
	rows     int
	ptr      []int
	col      []int32 // positions in the local vector
	val      []float64
	halo     int // entries of other ranks
	peers    []neighbour
	inner    []int32 // rows that need nothing of others
	outer    []int32 // the other ones
	requests []mpi.Request
	clock    clock.Clock
}

// neighbour is another rank that shares entries with this one.
type neighbour struct {
	rank     int
	from, to int       // where its entries are in the local vector
	give     []int32   // own entries it needs, ascending
	buffer   []float64 // those, packed
}

// newOperator takes over the rows b; starts are the first rows of all ranks.
func newOperator(c *mpi.Comm, b *block, starts []int) *operator {
	a := &operator{c: c, rows: b.rows(), ptr: b.ptr, val: b.val, col: make([]int32, len(b.col))}
	last := int32(b.first + a.rows)
	mine := func(j int32) bool { return j >= int32(b.first) && j < last }

	var foreign []int32
	for _, j := range b.col {
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
		for k := b.ptr[i]; k < b.ptr[i+1]; k++ {
			if j := b.col[k]; mine(j) {
				a.col[k] = j - int32(b.first)
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
	for i := range a.peers {
		a.peers[i].buffer = make([]float64, len(a.peers[i].give))
	}
	return a
}

// meet makes the list of neighbours from the rows of others that are needed.
func (a *operator) meet(foreign []int32, starts []int) {
	for at := 0; at < len(foreign); {
		owner := sort.SearchInts(starts, int(foreign[at])+1) - 1
		n := neighbour{rank: owner, from: a.rows + at}
		for at < len(foreign) && int(foreign[at]) < starts[owner+1] {
			at++
		}
		n.to = a.rows + at
		a.peers = append(a.peers, n)
	}
}

// share notes that the owner of the halo's entry at needs own entry i, too.
// Rows come in ascending order.
func (a *operator) share(at int, i int32) {
	k := sort.Search(len(a.peers), func(k int) bool { return a.peers[k].to > at })
	n := &a.peers[k]
	if len(n.give) == 0 || n.give[len(n.give)-1] != i {
		n.give = append(n.give, i)
	}
}

// vector returns a vector of zeros with room for the halo.
func (a *operator) vector() []float64 { return make([]float64, a.rows+a.halo) }

// apply sets y = A x; x has room for the halo, which is fetched. Rows that
// need nothing of others are computed while the messages travel.
func (a *operator) apply(y, x []float64) error {
	a.clock.Leave()
	a.requests = a.requests[:0]
	for i := range a.peers {
		n := &a.peers[i]
		r, err := mpi.Irecv(a.c, x[n.from:n.to], n.rank, tagHalo)
		if err != nil {
			return err
		}
		a.requests = append(a.requests, r)
	}
	for i := range a.peers {
		n := &a.peers[i]
		for k, j := range n.give {
			n.buffer[k] = x[j]
		}
		r, err := mpi.Isend(a.c, n.buffer, n.rank, tagHalo)
		if err != nil {
			return err
		}
		a.requests = append(a.requests, r)
	}
	a.clock.Return()
	a.multiply(y, x, a.inner)
	a.clock.Leave()
	if err := mpi.WaitallInto(a.requests, nil); err != nil {
		return err
	}
	a.clock.Return()
	a.multiply(y, x, a.outer)
	return nil
}

// multiply computes the given rows of y = A x, each in the order of the whole
// matrix's columns, whoever owns them.
func (a *operator) multiply(y, x []float64, rows []int32) {
	for _, i := range rows {
		col := a.col[a.ptr[i]:a.ptr[i+1]]
		val := a.val[a.ptr[i]:a.ptr[i+1]]
		sum := 0.0
		for k, j := range col {
			sum += float64(val[k] * x[j])
		}
		y[i] = sum
	}
}
