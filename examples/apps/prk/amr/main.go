// Amr applies a stencil to a grid of which a part is refined now and then, each time another part, after the kernel
// AMR of the Parallel Research Kernels (Van der Wijngaart, Georganas, Mattson and Wissink: A New Parallel Research
// Kernel to Expand Research on Dynamic Load-Balancing Capabilities, 2017):
//
//	gorun -np 4 -cr ./examples/apps/prk/amr -n 1000 -rounds 20
//
// In each round a corner of the grid is refined for a while, one after the other. The ranks that have points there are
// a group, which makes a communicator of its own. They tell each other the values of the grid, and each
// interpolates those of its part of the finer grid. What comes of both grids is known.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/apps/prk/internal/star"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	var o options
	flag.IntVar(&o.n, "n", 500, "points along an edge of the grid")
	flag.IntVar(&o.edge, "edge", 100, "points along an edge of the part that is refined")
	flag.IntVar(&o.level, "level", 1, "how often the distance of points is halved there")
	flag.IntVar(&o.radius, "radius", 2, "how many points the stencil reaches")
	flag.IntVar(&o.rounds, "rounds", 8, "refinements")
	flag.IntVar(&o.period, "period", 10, "iterations from one refinement to the next")
	flag.IntVar(&o.life, "life", 5, "iterations that a refinement is there")
	flag.IntVar(&o.sub, "sub", 2, "iterations on the finer grid for each on the other")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return amr(c, o, os.Stdout) })
}

type options struct{ n, edge, level, radius, rounds, period, life, sub int }

func (o *options) check() error {
	switch {
	case o.radius < 1 || o.level < 0 || o.level > 10 || o.rounds < 1 || o.sub < 1:
		return errors.New("-radius, -rounds and -sub must be positive, and -level within 0..10")
	case o.edge < 2 || o.edge > o.n || o.n <= 2*o.radius || o.fine() <= 2*o.radius:
		return errors.New("-edge must be within 2..n, and both grids must have more points than the stencil reaches")
	case o.life < 1 || o.life > o.period:
		return errors.New("-life must be within 1..period")
	}
	return nil
}

// fine returns the number of points along an edge of the finer grid.
func (o *options) fine() int { return (o.edge-1)<<o.level + 1 }

// corner returns where the part begins that is refined in a round.
func (o *options) corner(round int) (row, col int) {
	far := o.n - o.edge
	return round >> 1 & 1 * far, round & 1 * far
}

// amr is the program of one rank. It has a Point before each refinement, when there is none.
func amr(c *mpi.Comm, o options, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	f, err := star.New(c, o.n, o.radius, 1, func(i, j int) float64 { return float64(i + j) })
	if err != nil {
		return err
	}
	state, round := cr.On(c), 0
	if err := errors.Join(state.Register("round", &round), state.Register("in", &f.In), state.Register("out", &f.Out)); err != nil {
		return err
	}
	for ; round < o.rounds; round++ {
		if err := state.Point(); err != nil {
			return err
		}
		wrong, err := refined(f, &o, round)
		if err != nil {
			return err
		}
		if bad, err := mpi.AllreduceValue(c, wrong != nil, mpi.LOr); bad || err != nil {
			return errors.Join(err, app.Verdict(c, out, wrong))
		}
		for range o.period - o.life {
			if err := f.Iterate(); err != nil {
				return err
			}
		}
	}
	mean, wrong, err := f.Check(o.rounds * o.period)
	if err != nil {
		return err
	}
	app.Report(c, out, "%d refinements, the mean of the grid is %.12f\n", o.rounds, mean)
	return app.Verdict(c, out, wrong)
}

// refined does the iterations with a refinement, and tells what is wrong with it.
func refined(f *star.Field, o *options, round int) (wrong, err error) {
	r, err := newRefinement(f, o, round)
	if err != nil {
		return nil, err
	}
	for range o.life {
		if err := f.Iterate(); err != nil {
			return nil, err
		}
		for range o.sub {
			if r == nil {
				break
			}
			if err := r.fine.Iterate(); err != nil {
				return nil, err
			}
		}
	}
	if r == nil {
		return nil, nil
	}
	if _, wrong, err = r.fine.Check(o.life * o.sub); err == nil && wrong == nil {
		wrong = r.values(o, round)
	}
	if wrong != nil {
		wrong = fmt.Errorf("refinement %d: %w", round, wrong)
	}
	return wrong, errors.Join(err, r.fine.Ranks().Free(), r.c.Free())
}
