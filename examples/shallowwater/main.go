// Shallowwater follows the waves after a drop has fallen into a basin without walls, that is a torus:
//
//	gorun -np 4 -cr ./examples/shallowwater -n 1000 -steps 1000
//
// The equations of shallow water are solved by finite volumes with Rusanov's flux (LeVeque: Finite Volume Methods for
// Hyperbolic Problems, chapters 12 and 13). What flows out of a cell flows into its neighbour, so water and momentum
// are conserved but for rounding, and energy is never gained: the program verifies that.
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
	n := flag.Int("n", 200, "cells along an edge of the basin")
	steps := flag.Int("steps", 500, "steps of time")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return shallowwater(c, *n, *steps, os.Stdout) })
}

const gravity = 9.81

// cell is the water in a cell: how high it stands, and its momentum. A struct is a datatype like any other.
type cell struct{ H, U, V float64 }

// along returns what flows in the direction of the first component of momentum, u.
func (q cell) along() cell {
	return cell{q.U, q.U*q.U/q.H + gravity/2*q.H*q.H, q.U * q.V / q.H}
}

// turned exchanges the directions.
func (q cell) turned() cell { return cell{q.H, q.V, q.U} }

// speed is that of the fastest wave.
func (q cell) speed() float64 {
	return max(math.Abs(q.U), math.Abs(q.V))/q.H + math.Sqrt(gravity*q.H)
}

// flux is what flows from l to r, if no wave is faster than s.
func flux(l, r cell, s float64) cell {
	f, g := l.along(), r.along()
	return cell{(f.H + g.H - s*(r.H-l.H)) / 2, (f.U + g.U - s*(r.U-l.U)) / 2, (f.V + g.V - s*(r.V-l.V)) / 2}
}

// basin is a rank's part, in a frame of its neighbours' cells.
type basin struct {
	rows, cols int // with the frame
	now, next  []cell
}

// shallowwater is the program of one rank.
func shallowwater(c *mpi.Comm, n, steps int, out io.Writer) error {
	if n < 1 || steps < 0 {
		return errors.New("-n must be positive, and -steps not negative")
	}
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return err
	}
	grid, err := c.Cart(dims, []bool{true, true}, false) // a restart finds its state at the same points
	if err != nil {
		return err
	}
	b, err := newBasin(grid, n)
	if err != nil {
		return err
	}
	halo, err := mpi.NewHalo(grid, b.now, []int{b.rows, b.cols}, 1, false)
	if err != nil {
		return fmt.Errorf("%d x %d cells for %v ranks: %w", n, n, dims, err)
	}
	before, err := b.totals(grid)
	if err != nil {
		return err
	}
	state, step, clock := cr.On(c), 0, 0.0
	if err := errors.Join(state.Register("step", &step), state.Register("clock", &clock), state.Register("cells", &b.now)); err != nil {
		return err
	}
	for ; step < steps; step++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := halo.Exchange(); err != nil {
			return err
		}
		fastest, err := mpi.AllreduceValue(grid.Comm, b.fastest(), mpi.Max)
		if err != nil {
			return err
		}
		dt := .2 / (fastest * float64(n)) // no wave crosses more than a fifth of a cell
		b.step(dt*float64(n), fastest)
		clock += dt
	}
	after, err := b.totals(grid)
	if err != nil {
		return err
	}
	cells := float64(n) * float64(n)
	app.Report(c, out, "after %.6g s: water %.12g, momentum %.1e, energy %.9g, at first %.9g\n",
		clock, after[water]/cells, math.Hypot(after[east], after[north])/cells, after[energy]/cells, before[energy]/cells)
	return app.Verdict(c, out, check(before, after))
}

// newBasin fills a basin whose edge is 1. The drop falls in the middle.
func newBasin(grid *mpi.Cart, n int) (*basin, error) {
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	dims := grid.Dims()
	top, bottom := app.Range(n, dims[0], at[0])
	left, right := app.Range(n, dims[1], at[1])
	b := &basin{rows: bottom - top + 2, cols: right - left + 2}
	b.now, b.next = make([]cell, b.rows*b.cols), make([]cell, b.rows*b.cols)
	for i := range b.rows {
		for j := range b.cols {
			x, y := (float64(left+j)-.5)/float64(n)-.5, (float64(top+i)-.5)/float64(n)-.5
			b.now[i*b.cols+j] = cell{H: 1 + .5*math.Exp(-100*(x*x+y*y))}
		}
	}
	return b, nil
}

// each calls f for each cell within the frame.
func (b *basin) each(f func(k int)) {
	for i := 1; i < b.rows-1; i++ {
		for j := 1; j < b.cols-1; j++ {
			f(i*b.cols + j)
		}
	}
}

func (b *basin) fastest() (s float64) {
	b.each(func(k int) { s = max(s, b.now[k].speed()) })
	return s
}

// step goes on by r cells for a wave of speed 1.
func (b *basin) step(r, s float64) {
	b.each(func(k int) {
		q, up, down := b.now[k], b.now[k-b.cols].turned(), b.now[k+b.cols].turned()
		w, e := flux(b.now[k-1], q, s), flux(q, b.now[k+1], s)
		u, d := flux(up, q.turned(), s).turned(), flux(q.turned(), down, s).turned()
		b.next[k] = cell{q.H - r*(e.H-w.H+d.H-u.H), q.U - r*(e.U-w.U+d.U-u.U), q.V - r*(e.V-w.V+d.V-u.V)}
	})
	copy(b.now, b.next)
}

// What is added up over all cells.
const (
	water = iota
	east
	north
	energy
	quantities
)

func (b *basin) totals(grid *mpi.Cart) ([]float64, error) {
	sum := make([]float64, quantities)
	b.each(func(k int) {
		q := b.now[k]
		for i, v := range []float64{q.H, q.U, q.V, (q.U*q.U+q.V*q.V)/(2*q.H) + gravity/2*q.H*q.H} {
			sum[i] += v
		}
	})
	return sum, mpi.AllreduceInPlace(grid.Comm, sum, mpi.Sum)
}

// check tells what has not been conserved.
func check(before, after []float64) error {
	small := 1e-10 * before[water]
	for i, name := range []string{"water", "momentum east", "momentum north"} {
		if !(math.Abs(after[i]-before[i]) <= small) {
			return fmt.Errorf("%s was %g and is %g", name, before[i], after[i])
		}
	}
	if !(after[energy] <= before[energy]+small) {
		return fmt.Errorf("energy was %g and is %g", before[energy], after[energy])
	}
	return nil
}
