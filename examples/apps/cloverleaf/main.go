// Cloverleaf follows a gas that expands into a thinner one in a closed box, after the mini-application CloverLeaf
// (Mallinson and others: CloverLeaf: Preparing Hydrodynamics Codes for Exascale, 2013):
//
//	gorun -np 4 -cr ./examples/apps/cloverleaf -problem 2
//
// It solves the equations of Euler in two dimensions. Density and energy are of cells, velocities of their corners. A
// step moves the cells with the gas (hydro.go), and then what is in them back into the cells of the grid, in one direction
// after the other (advect.go). A grid of ranks divides the box, and the borders of several fields travel at once (field.go).
//
// No mass is lost. For some sizes the kinetic energy at the end is published: the program verifies that, too.
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
	problem := flag.Int("problem", 0, "a problem of CloverLeaf whose end is known: 1 or 2, in place of the other flags")
	d := deck{height: edge}
	flag.IntVar(&d.nx, "nx", 240, "cells along the box")
	flag.IntVar(&d.ny, "ny", 240, "cells across it")
	flag.IntVar(&d.steps, "steps", 100, "steps at most")
	flag.Float64Var(&d.end, "time", 10, "end of time, if it comes first")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error {
		if *problem != 0 {
			var known bool
			if d, known = problems[*problem]; !known {
				return fmt.Errorf("-problem is 1 or 2, not %d", *problem)
			}
		}
		return cloverleaf(c, d, os.Stdout)
	})
}

const edge = 10.0 // length of the box

// deck is a problem: cells, the height of the box, and when it ends.
type deck struct {
	nx, ny int
	height float64
	steps  int
	end    float64
}

// problems are those of CloverLeaf whose kinetic energies at the end are published.
var (
	problems  = map[int]deck{1: {10, 2, 2, math.MaxInt, 3}, 2: {960, 960, edge, 87, 10}}
	published = map[deck]float64{problems[1]: 1.82280367310258, problems[2]: 1.19316898756307}
)

// cloverleaf is the program of one rank.
func cloverleaf(c *mpi.Comm, d deck, out io.Writer) error {
	if d.nx < 1 || d.ny < 1 {
		return errors.New("-nx and -ny must be positive")
	}
	dims, err := divide(c.Size(), d)
	if err != nil {
		return err
	}
	grid, err := c.Cart(dims, []bool{false, false}, false) // a restart finds its state at the same points
	if err != nil {
		return err
	}
	b, err := newBox(grid, d)
	if err != nil {
		return err
	}
	before, err := b.totals()
	if err != nil {
		return err
	}
	state := cr.On(c)
	if err := b.register(state); err != nil {
		return err
	}
	for b.step < d.steps && b.time+tiny <= d.end {
		if err := state.Point(); err != nil {
			return err
		}
		if err := b.advance(); err != nil {
			return err
		}
	}
	after, err := b.totals()
	if err != nil {
		return err
	}
	app.Report(c, out, "%v ranks, %d steps to %.6f: mass %.12f, internal energy %.12f, kinetic energy %.12f\n",
		dims, b.step, b.time, after.mass, after.internal, after.kinetic)
	return app.Verdict(c, out, check(d, before, after))
}

// divide returns how many ranks divide the box down and along, so that none has too few cells for what its
// neighbours need, and that borders are short.
func divide(ranks int, d deck) (dims []int, err error) {
	least := math.MaxInt
	for down := 1; down <= ranks; down++ {
		along := ranks / down
		fits := func(n, parts int) bool { return parts == 1 || n/parts >= ghosts }
		if border := d.ny*along + d.nx*down; down*along == ranks && fits(d.ny, down) && fits(d.nx, along) && border < least {
			dims, least = []int{down, along}, border
		}
	}
	if dims == nil {
		return nil, fmt.Errorf("%d x %d cells cannot be divided among %d ranks: each needs %d of them in each direction", d.nx, d.ny, ranks, ghosts)
	}
	return dims, nil
}

// totals are sums over the box.
type totals struct{ mass, internal, kinetic float64 }

// check tells whether mass was lost, or the kinetic energy is not the one that is known.
func check(d deck, before, after totals) error {
	if !(math.Abs(after.mass-before.mass) <= 1e-12*before.mass) {
		return fmt.Errorf("there was a mass of %v, and is of %v", before.mass, after.mass)
	}
	if want, known := published[d]; known && !(math.Abs(after.kinetic-want) <= 1e-8*want) {
		return fmt.Errorf("the kinetic energy is %.14f, not %.14f", after.kinetic, want)
	}
	if !(after.internal > 0 && after.kinetic >= 0 && after.internal+after.kinetic <= (before.internal+before.kinetic)*(1+1e-3)) {
		return fmt.Errorf("there was an energy of %v, and is of %v", before.internal+before.kinetic, after.internal+after.kinetic)
	}
	return nil
}
