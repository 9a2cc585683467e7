package main

import (
	"github.com/gorun-mpi/gorun/examples/solver/cg"
	"github.com/gorun-mpi/gorun/mpi"
)

// tags of the solver's messages.
const (
	tagRows = 1 + iota
	tagHalo
	tagSolution
)

// load gives every rank its rows of the problem, and the first row of every
// rank. Rank 0 alone reads a file: 64 ranks that parse it would take longer
// than the solution.
func load(c *mpi.Comm, o options) (b *cg.Block, starts []int, err error) {
	starts = make([]int, c.Size()+1)
	var whole *cg.Block
	if c.Rank() == 0 {
		if whole, starts, err = plan(c.Size(), o); err != nil {
			return nil, nil, err
		}
	}
	if err := mpi.Bcast(c, starts, 0); err != nil {
		return nil, nil, err
	}
	if o.poisson > 0 {
		return cg.Poisson(o.poisson).Block(starts[c.Rank()], starts[c.Rank()+1]), starts, nil
	}
	b, err = scatter(c, whole, starts)
	return b, starts, err
}

// plan reads the matrix, if it comes from a file, and cuts it for size ranks.
func plan(size int, o options) (whole *cg.Block, starts []int, err error) {
	if o.poisson > 0 {
		p := cg.Poisson(o.poisson)
		starts, err = cg.Partition(p.Rows(), size, p.Nonzeros)
		return nil, starts, err
	}
	if whole, err = o.read(); err != nil {
		return nil, nil, err
	}
	starts, err = cg.Partition(whole.N, size, func(i int) int { return whole.Ptr[i+1] - whole.Ptr[i] })
	return whole, starts, err
}

// scatter sends each rank its rows of the matrix that rank 0 holds.
func scatter(c *mpi.Comm, whole *cg.Block, starts []int) (*cg.Block, error) {
	rank, size := c.Rank(), c.Size()
	if rank != 0 {
		b := &cg.Block{N: starts[size], First: starts[rank], Ptr: make([]int, starts[rank+1]-starts[rank]+1)}
		var err error
		if _, err = mpi.Recv(c, b.Ptr, 0, tagRows); err != nil {
			return nil, err
		}
		if b.Col, _, err = mpi.RecvAlloc[int32](c, 0, tagRows); err != nil {
			return nil, err
		}
		b.Val, _, err = mpi.RecvAlloc[float64](c, 0, tagRows)
		return b, err
	}
	for r := 1; r < size; r++ {
		p := whole.Part(starts[r], starts[r+1])
		if err := mpi.Send(c, p.Ptr, r, tagRows); err != nil {
			return nil, err
		}
		if err := mpi.Send(c, p.Col, r, tagRows); err != nil {
			return nil, err
		}
		if err := mpi.Send(c, p.Val, r, tagRows); err != nil {
			return nil, err
		}
	}
	return whole.Part(0, starts[1]), nil
}
