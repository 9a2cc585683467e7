// Cg is the NAS benchmark CG: it estimates the smallest eigenvalue of a sparse matrix by the inverse power method, each
// step of which is 25 iterations of conjugate gradients (RNR-94-007, section 2.7, and NAS-95-020).
//
//	gorun -np 4 -cr ./examples/apps/npb/cg A
//
// The matrix lies on a grid of ranks in blocks, so any number of ranks will do up to one for each row. A rank's state
// is its part of the vector.
package main

import (
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// problem is that of a class.
type problem struct {
	n       int // rows
	nonzero int // elements of each vector that the matrix is made of
	steps   int
	shift   float64
	zeta    float64 // published
}

var problems = map[nas.Class]problem{
	'S': {1400, 7, 15, 10, 8.5971775078648},
	'W': {7000, 8, 15, 12, 10.362595087124},
	'A': {14000, 11, 15, 20, 17.130235054029},
	'B': {75000, 13, 75, 60, 22.712745482631},
}

const inner = 25 // iterations of conjugate gradients in a step

func main() { nas.Main(cg) }

func cg(c *mpi.Comm, class nas.Class) (*nas.Report, error) {
	p := problems[class]
	if c.Size() > p.n {
		return nil, fmt.Errorf("%d ranks are too many for %d rows", c.Size(), p.n)
	}
	g, err := newGrid(c, p.n)
	if err != nil {
		return nil, err
	}
	x, zeta := make([]float64, g.piece), 0.0
	for i := range x {
		if g.first+i < p.n {
			x[i] = 1
		}
	}
	loop, err := nas.NewLoop(c, map[string]any{"x": &x, "zeta": &zeta})
	if err != nil {
		return nil, err
	}
	s := newSolver(g, loop, newMatrix(p, g.rows, g.cols), x)
	seconds, err := loop.Run(p.steps, func(int) error {
		if err := s.solve(); err != nil {
			return err
		}
		sums := []float64{dot(s.x, s.z), dot(s.z, s.z)}
		if err := loop.Outside(func() error { return mpi.AllreduceInPlace(c, sums, mpi.Sum) }); err != nil {
			return err
		}
		zeta = p.shift + 1/sums[0]
		norm := 1 / math.Sqrt(sums[1])
		for i, z := range s.z {
			s.x[i] = norm * z
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	k := p.nonzero * (p.nonzero + 1)
	return &nas.Report{
		Name: "CG", Size: fmt.Sprint(p.n), Iterations: p.steps, Seconds: seconds,
		Operations: float64(2 * p.steps * p.n * (3 + k + inner*(5+k) + 3)),
		Checks:     []nas.Check{{What: "zeta", Got: zeta, Want: p.zeta, Tolerance: 1e-10}},
	}, nil
}
