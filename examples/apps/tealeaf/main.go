// Tealeaf follows how heat spreads through a square of two materials, after the mini-application TeaLeaf
// (McIntosh-Smith and others: TeaLeaf: a mini-application to enable design-space explorations for iterative sparse
// linear solvers, 2017):
//
//	gorun -np 4 -cr ./examples/apps/tealeaf -n 500
//
// Each step of time is implicit: a linear system, which conjugate gradients solve. A grid of ranks divides the square.
// While the borders of neighbours are on their way, a rank multiplies what needs none of them (Halo.Start).
//
// No heat is lost. The sizes 10, 250, 500, 1000 and 4000 are benchmarks of TeaLeaf, whose final temperatures are
// published: the program verifies those, too.
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
	n := flag.Int("n", 250, "cells along an edge")
	steps := flag.Int("steps", published, "steps of time")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return tealeaf(c, *n, *steps, os.Stdout) })
}

// The edge of the square is 10.
const (
	edge = 10.0
	dt   = .004 // a step of time
)

// published are the steps after which temperatures are known, by the cells along an edge.
const published = 10

var temperatures = map[int]float64{10: 157.55084183279294, 250: 106.27221178646569, 500: 99.955877498324000, 1000: 97.277332050749976, 4000: 95.462351583362249}

// tealeaf is the program of one rank.
func tealeaf(c *mpi.Comm, n, steps int, out io.Writer) error {
	if n < 1 || steps < 0 {
		return errors.New("-n must be positive, and -steps not negative")
	}
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return err
	}
	grid, err := c.Cart(dims, []bool{false, false}, false) // a restart finds its state at the same points
	if err != nil {
		return err
	}
	s, err := newSquare(grid, n)
	if err != nil {
		return fmt.Errorf("%d x %d cells for %v ranks: %w", n, n, dims, err)
	}
	before, _, err := s.totals()
	if err != nil {
		return err
	}
	state := cr.On(c)
	if err := s.register(state); err != nil {
		return err
	}
	for s.step < steps {
		if err := state.Point(); err != nil {
			return err
		}
		if err := s.iterate(); err != nil {
			return err
		}
	}
	after, temperature, err := s.totals()
	if err != nil {
		return err
	}
	app.Report(c, out, "%v ranks, %d steps of %d iterations: heat %.12f, temperature %.12f\n", dims, steps, s.iterations/max(steps, 1), after, temperature)
	return app.Verdict(c, out, check(n, steps, before, after, temperature))
}

// check tells whether heat was lost, or the temperature is not the one that is known.
func check(n, steps int, before, after, temperature float64) error {
	if !(math.Abs(after-before) <= 1e-10*before) {
		return fmt.Errorf("there was heat of %v, and is of %v", before, after)
	}
	if want, known := temperatures[n]; known && steps == published && !(math.Abs(temperature-want) <= 1e-9*want) {
		return fmt.Errorf("the temperature is %.12f, not %.12f", temperature, want)
	}
	return nil
}
