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
	"math"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// problem is that of a class.
type problem struct {
	n      int // points along an edge
	cycles int
	smooth [3]float64 // weights of a point, its 6 neighbours and the 12 beyond; the 8 at the corners have none
	norm   float64    // published, of the last residual
}

var problems = map[nas.Class]problem{
	'S': {32, 4, [3]float64{-3. / 8, 1. / 32, -1. / 64}, 0.5307707005734e-04},
	'W': {128, 4, [3]float64{-3. / 8, 1. / 32, -1. / 64}, 0.6467329375339e-05},
	'A': {256, 4, [3]float64{-3. / 8, 1. / 32, -1. / 64}, 0.2433365309069e-05},
	'B': {256, 20, [3]float64{-3. / 17, 1. / 33, -1. / 61}, 0.1800564401355e-05},
}

func main() { nas.Main(mg) }

func mg(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := problems[class]
	t, err := cube(c, p.n)
	if err != nil {
		return nil, err
	}
	b, err := partOf(t, p.n)
	if err != nil {
		return nil, err
	}
	u := b.array()
	loop, err := nas.NewLoop(c, map[string]any{"u": &u})
	if err != nil {
		return nil, err
	}
	v, err := charges(c, b, p.n)
	if err != nil {
		return nil, err
	}
	h, err := newHierarchy(t, loop, p.n, b, u)
	if err != nil {
		return nil, err
	}
	top := h.levels[len(h.levels)-1]
	if err := top.residual(v); err != nil {
		return nil, err
	}
	seconds, err := loop.Run(p.cycles, func(int) error {
		if err := h.cycle(v, p.smooth); err != nil {
			return err
		}
		return top.residual(v)
	})
	if err != nil {
		return nil, err
	}
	points := float64(p.n * p.n * p.n)
	sum, err := mpi.AllreduceValue(c, top.squares(), mpi.Sum)
	return &nas.Report{
		Name: "MG", Size: fmt.Sprintf("%dx%dx%d", p.n, p.n, p.n), Iterations: p.cycles, Seconds: seconds,
		Operations: 58 * points * float64(p.cycles),
		Checks:     []nas.Check{{What: "norm of the residual", Got: math.Sqrt(sum / points), Want: p.norm, Tolerance: 1e-8}},
	}, err
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
