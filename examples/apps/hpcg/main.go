// Hpcg solves a sparse system by conjugate gradients, preconditioned by a multigrid cycle, as the benchmark HPCG does
// (Dongarra, Heroux and Luszczek: High-performance conjugate-gradient benchmark, 2016):
//
//	gorun -np 8 -cr ./examples/apps/hpcg -n 64 -iters 50
//
// Each rank has a cube of n^3 points of a grid. A point is coupled to the 26 around it. The smoother is a symmetric
// Gauss-Seidel sweep on up to four grids, each with half the points of the one before along an edge. Before each
// product and each sweep a rank gets the points around its cube from up to 26 neighbours: these messages are
// persistent.
//
// It verifies what HPCG verifies: the operator and the preconditioner are symmetric; where the diagonal is made
// large, as many iterations are enough as theory says; and here the solution, which is 1 everywhere.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 32, "points along an edge of a rank's cube, even and 4 at least; the more often it can be halved, the more grids")
	iters := flag.Int("iters", 50, "iterations")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return hpcg(c, *n, *iters, os.Stdout) })
}

// hpcg is the program of one rank.
func hpcg(c *mpi.Comm, n, iters int, out io.Writer) error {
	if n < 4 || n%2 != 0 || iters < 1 {
		return errors.New("-n must be even and 4 at least, and -iters positive")
	}
	grid, err := newGrid(c)
	if err != nil {
		return err
	}
	top, err := newLevel(grid, n, 4)
	if err != nil {
		return err
	}
	wrong, err := examine(top)
	if err != nil {
		return err
	}
	b, err := top.rightSide()
	if err != nil {
		return err
	}
	s := newSolution(top, b)
	state := cr.On(c)
	if err := s.register(state); err != nil {
		return err
	}
	for s.iteration < iters {
		if err := state.Point(); err != nil {
			return err
		}
		if err := s.iterate(top, true); err != nil {
			return err
		}
	}
	far, err := top.max(func(i int) float64 { return math.Abs(s.x[i] - 1) })
	if err != nil {
		return err
	}
	app.Report(c, out, "%v ranks, residual %.6e of the first after %d iterations, off by %.3e\n", grid.Dims(), s.residual(), iters, far)
	// An iteration takes away much more than a third of the residual until rounding sets an end to it.
	if bound := max(math.Pow(1.5, -float64(iters)), 1e-11); wrong == nil && !(s.residual() <= bound && far <= 1e3*bound) {
		wrong = fmt.Errorf("residual %g and error %g after %d iterations", s.residual(), far, iters)
	}
	return app.Verdict(c, out, wrong)
}

func newGrid(c *mpi.Comm) (*mpi.Cart, error) {
	dims, err := mpi.Dims(c.Size(), []int{0, 0, 0})
	if err != nil {
		return nil, err
	}
	return c.Cart(dims, []bool{false, false, false}, false) // a restart finds its state at the same points
}
