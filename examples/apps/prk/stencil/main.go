// Stencil applies a star-shaped stencil to a square grid again and again, after the kernel Stencil of the Parallel
// Research Kernels (Van der Wijngaart and Mattson: The Parallel Research Kernels, 2014):
//
//	gorun -np 4 -cr ./examples/apps/prk/stencil -n 4000 -iters 100 -radius 2
//
// The result is known: each application to the field x+y gives 2 everywhere. The field grows by 1 in between, which
// changes nothing.
package main

import (
	"errors"
	"flag"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/apps/prk/internal/star"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 1000, "points along an edge of the grid")
	iters := flag.Int("iters", 10, "iterations")
	radius := flag.Int("radius", 2, "how many points the stencil reaches")
	times := flag.Bool("times", false, "also print how much of the iterations is not computation")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return stencil(c, *n, *iters, *radius, *times, os.Stdout) })
}

// stencil is the program of one rank.
func stencil(c *mpi.Comm, n, iters, radius int, times bool, out io.Writer) error {
	if radius < 1 || n < 2*radius+1 || iters < 1 {
		return errors.New("-radius and -iters must be positive, and -n larger than twice the radius")
	}
	f, err := star.New(c, n, radius, 1, func(i, j int) float64 { return float64(i + j) })
	if err != nil {
		return err
	}
	state, done := cr.On(c), 0
	if err := errors.Join(state.Register("done", &done), state.Register("in", &f.In), state.Register("out", &f.Out)); err != nil {
		return err
	}
	if err := f.Clock.Start(c); err != nil {
		return err
	}
	for ; done < iters; done++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := f.Iterate(); err != nil {
			return err
		}
	}
	f.Clock.Stop()
	if times {
		if err := f.Clock.Print(c, out); err != nil {
			return err
		}
	}
	mean, wrong, err := f.Check(iters)
	if err != nil {
		return err
	}
	app.Report(c, out, "the mean is %.12f after %d iterations\n", mean, iters)
	return app.Verdict(c, out, wrong)
}
