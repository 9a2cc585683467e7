// Sweep computes how particles stream through a cube and are scattered in it, by discrete ordinates, with the order
// of work and the messages of SNAP (Zerr and Baker: SNAP: SN (Discrete Ordinates) Application Proxy, 2013):
//
//	gorun -np 4 -cr ./examples/apps/sweep -n 64 -angles 12 -iters 20
//
// A grid of ranks divides the cube along y and z (Koch, Baker and Alcouffe, 1992). In each of the eight octants of
// directions particles come from one corner: a rank does a block of planes in x when the ranks before it in y and in z
// have, and hands it on. Cart.Sub makes the communicators of the lines of ranks along y and z.
//
// Diamond differences conserve particles in each cell: what is scattered and put in is what is hit and leaks out. The
// cube is symmetric, so as much leaks out at a side as at the one opposite.
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
	n := flag.Int("n", 32, "cells along an edge of the cube")
	angles := flag.Int("angles", 8, "directions in an octant")
	block := flag.Int("block", 4, "planes in a message")
	iters := flag.Int("iters", 10, "iterations")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return sweep(c, *n, *angles, *block, *iters, os.Stdout) })
}

// The edge of the cube is 1. In each unit of volume one particle is put in.
const (
	total     = 5.0 // cross section: particles hit for each unit of length
	scattered = 2.5 // of these; the others are absorbed
)

// sweep is the program of one rank.
func sweep(c *mpi.Comm, n, angles, block, iters int, out io.Writer) error {
	if n < 1 || angles < 1 || block < 1 || iters < 1 {
		return errors.New("-n, -angles, -block and -iters must be positive")
	}
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return err
	}
	if n < dims[0] {
		return fmt.Errorf("%d cells for %v ranks", n, dims)
	}
	grid, err := c.Cart(dims, []bool{false, false}, false) // a restart finds its state at the same points
	if err != nil {
		return err
	}
	s, err := newSweeper(grid, n, angles, block)
	if err != nil {
		return err
	}
	state, done, change := cr.On(c), 0, 0.0
	var b balance
	if err := errors.Join(state.Register("done", &done), state.Register("flux", &s.flux)); err != nil {
		return err
	}
	for ; done < iters; done++ {
		if err := state.Point(); err != nil {
			return err
		}
		if b, change, err = s.iterate(); err != nil {
			return err
		}
	}
	app.Report(c, out, "%v ranks, %d iterations: %.12f particles put in and scattered, %.12f hit, %.12f leaked; the flux has changed by %.2e\n",
		dims, iters, b.In, b.Hit, b.leaked(), change)
	return app.Verdict(c, out, b.check())
}

// balance is what has become of all particles in an iteration.
type balance struct {
	In, Hit float64
	Leaked  [3][2]float64 // at both sides in x, y and z
}

func (b balance) leaked() (sum float64) {
	for _, d := range b.Leaked {
		sum += d[0] + d[1]
	}
	return sum
}

// check tells what is out of balance.
func (b balance) check() error {
	if !(math.Abs(b.In-b.Hit-b.leaked()) <= 1e-11*b.In) {
		return fmt.Errorf("%v particles come in, %v are hit and %v leak out", b.In, b.Hit, b.leaked())
	}
	for d, sides := range b.Leaked {
		if !(math.Abs(sides[0]-sides[1]) <= 1e-11*b.In) {
			return fmt.Errorf("%v particles leak out at one side in dimension %d, %v at the other", sides[0], d, sides[1])
		}
	}
	return nil
}

// iterate computes the flux anew from the particles that the last flux has scattered.
func (s *sweeper) iterate() (b balance, change float64, err error) {
	volume := 1 / float64(s.n*s.n*s.n)
	for k, f := range s.flux {
		s.source[k] = 1 + scattered*f
		b.In += s.source[k] * volume
	}
	clear(s.next)
	for octant := range 8 {
		if err := s.octant([3]int{octant >> 2 & 1, octant >> 1 & 1, octant & 1}, &b); err != nil {
			return b, 0, err
		}
	}
	for k, f := range s.next {
		b.Hit += total * f * volume
		change = max(change, math.Abs(f-s.flux[k]))
	}
	copy(s.flux, s.next)
	sum := []float64{b.In, b.Hit}
	for _, d := range b.Leaked {
		sum = append(sum, d[:]...)
	}
	if err := mpi.AllreduceInPlace(s.c, sum, mpi.Sum); err != nil {
		return b, 0, err
	}
	b.In, b.Hit = sum[0], sum[1]
	for d := range b.Leaked {
		copy(b.Leaked[d][:], sum[2+2*d:])
	}
	change, err = mpi.AllreduceValue(s.c, change, mpi.Max)
	return b, change, err
}
