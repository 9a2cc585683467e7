// Mg is the NAS benchmark MG: V-cycles of a multigrid method for Poisson's equation on a periodic cube (RNR-94-007,
// section 2.5, and NAS-95-020).
//
//	gorun -np 8 -cr ./examples/apps/npb/mg A
//
// The cube is cut along all three dimensions, so the number of ranks is a power of two. The levels that are too coarse
// to be cut are computed by every rank. A rank's state is its part of the solution; all else is computed from that.
package main

import (
	"fmt"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/poisson"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() { nas.Main(mg) }

func mg(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := poisson.Problems[class]
	t, err := cube(c, p.N)
	if err != nil {
		return nil, err
	}
	b, err := partOf(t, p.N)
	if err != nil {
		return nil, err
	}
	u := b.array()
	loop, err := nas.NewLoop(c, map[string]any{"u": &u})
	if err != nil {
		return nil, err
	}
	v, err := b.charges(c, p)
	if err != nil {
		return nil, err
	}
	h, err := newHierarchy(t, loop, p.N, b, u)
	if err != nil {
		return nil, err
	}
	top := h.levels[len(h.levels)-1]
	if err := top.residual(v); err != nil {
		return nil, err
	}
	seconds, err := loop.Run(p.Cycles, func(int) error {
		if err := h.cycle(v, p.Smooth); err != nil {
			return err
		}
		return top.residual(v)
	})
	if err != nil {
		return nil, err
	}
	sum, err := mpi.AllreduceValue(c, top.squares(), mpi.Sum)
	return p.Report(sum, seconds), err
}

// cube arranges the ranks.
func cube(c *mpi.Comm, n int) (*mpi.Cart, error) {
	dims, err := mpi.Dims(c.Size(), []int{0, 0, 0})
	if err != nil {
		return nil, err
	}
	if r := c.Size(); r&(r-1) != 0 || 2*dims[0] > n {
		return nil, fmt.Errorf("%d ranks: the number must be a power of two, and at most %d", r, n*n*n/8)
	}
	return c.Cart(dims, []bool{true, true, true}, false)
}
