// Waves is shallowwater on devices: the waves after a drop has fallen into a basin without walls, on the devices of all ranks:
//
//	gorun -np 2 -cr ./examples/waves -n 500 -steps 500 -devices 2
//
// Each rank has a block of rows of the basin and each of its virtual devices a block of these, with a row of each neighbour (a halo). Only halo rows
// move: from device to device within a rank, in messages between ranks. The cells are registered by global index, so a restart may have other devices and another
// number of ranks.
//
// A cell is computed of its neighbours, with operations that IEEE 754 rounds correctly and no fused ones; so all bodies of the kernels, ranks and
// devices have the same result, bit for bit, whose digest is printed. What is conserved is verified (see shallowwater).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	n := flag.Int("n", 200, "cells along an edge of the basin")
	steps := flag.Int("steps", 200, "steps of time, an even number")
	devices := flag.Int("devices", 2, "virtual devices of each rank")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return waves(c, *n, *steps, *devices, os.Stdout) })
}

// basin is a rank's rows of cells, between a row of the rank above and one of the rank below.
type basin struct {
	c         *mpi.Comm
	ds        device.Devices
	bounds    []int // of the rows without the halo
	n, rows   int
	now, next *device.Array[float64] // a cell is three numbers
	speed     *device.Array[float64] // of the fastest wave in each row
}

// cell is how many numbers a cell has: height of the water, momentum east, momentum south.
const cell = 3

// waves is the program of one rank.
func waves(c *mpi.Comm, n, steps, devices int, out io.Writer) error {
	if n < c.Size() || steps < 0 || steps%2 != 0 || devices < 1 {
		return errors.New("-n must be the number of ranks at least, -steps even, and -devices positive")
	}
	ds, err := device.Virtual(devices)
	if err != nil {
		return err
	}
	defer ds.Close()
	all := dist.Even(n, c.Size())
	first, end := all.Of(c.Rank())
	rows := end - first
	b := &basin{c, ds, ds.Split(rows), n, rows, device.NewArray[float64](rows+2, cell*n), device.NewArray[float64](rows+2, cell*n), device.NewArray[float64](rows)}
	if err := b.drop(first); err != nil {
		return err
	}
	before, err := b.totals()
	if err != nil {
		return err
	}
	mine, err := dist.Held(c, all, cell*n, b.now.Rows(1, rows+1))
	if err != nil {
		return err
	}
	state, step, clock := cr.On(c), 0, 0.0
	if err := errors.Join(state.Register("step", dist.Replicated(&step)), state.Register("clock", dist.Replicated(&clock)), state.Register("cells", mine)); err != nil {
		return err
	}
	for ; step < steps; step += 2 { // two: there and back
		if err := state.Point(); err != nil {
			return err
		}
		for range 2 {
			dt, err := b.step()
			if err != nil {
				return err
			}
			clock += dt
		}
	}
	after, err := b.totals()
	if err != nil {
		return err
	}
	sum, err := b.digest(first)
	if err != nil {
		return err
	}
	app.Report(c, out, "after %.6g s: energy %.9g, at first %.9g, digest %016x\n", clock, after[energy], before[energy], sum)
	return app.Verdict(c, out, check(before, after))
}

// drop fills a basin whose edge is 1. The drop falls in the middle.
func (b *basin) drop(first int) error {
	v, err := b.now.HostW()
	for i := 1; i <= b.rows; i++ {
		for j := range b.n {
			x, y := (float64(j)+.5)/float64(b.n)-.5, (float64(first+i-1)+.5)/float64(b.n)-.5
			v[(i*b.n+j)*cell] = 1 + math.Max(0, .3-8*(x*x+y*y))
		}
	}
	return err
}

// step makes next of now, and exchanges them. It returns how long it was.
func (b *basin) step() (dt float64, err error) {
	if err := b.exchange(); err != nil {
		return 0, err
	}
	fastest, err := b.fastest()
	if err != nil {
		return 0, err
	}
	dt = .2 / (fastest * float64(b.n)) // no wave crosses more than a fifth of a cell
	for v, d := range b.ds {
		from, to := b.bounds[v], b.bounds[v+1]
		if _, err := d.Run(flow, []int{b.n, to - from}, nil, b.next.Rows(from+1, to+1).Out(), b.now.Rows(from, to+2).In(), dt*float64(b.n), fastest); err != nil {
			return 0, err
		}
	}
	b.now, b.next = b.next, b.now
	return dt, nil
}

// fastest returns the speed of the fastest wave of all ranks. All devices have their rows then.
func (b *basin) fastest() (float64, error) {
	for v, d := range b.ds { // first for all, so that they compute at the same time
		if err := d.Fetch(b.now.Rows(b.bounds[v], b.bounds[v+1]+2).In()); err != nil {
			return 0, err
		}
	}
	for v, d := range b.ds {
		from, to := b.bounds[v], b.bounds[v+1]
		if _, err := d.Run(rush, []int{to - from}, nil, b.speed.Rows(from, to).Out(), b.now.Rows(from, to+2).In(), b.n); err != nil {
			return 0, err
		}
	}
	speed, err := b.speed.Host()
	if err != nil {
		return 0, err
	}
	most := 0.0
	for _, s := range speed {
		most = max(most, s)
	}
	return mpi.AllreduceValue(b.c, most, mpi.Max)
}

// exchange fills the halo with the outer rows of the ranks above and below.
func (b *basin) exchange() error {
	up, down := (b.c.Rank()+b.c.Size()-1)%b.c.Size(), (b.c.Rank()+1)%b.c.Size()
	for _, m := range []struct{ row, to, halo, from int }{{1, up, b.rows + 1, down}, {b.rows, down, 0, up}} {
		mine, err := b.now.Rows(m.row, m.row+1).Host()
		if err != nil {
			return err
		}
		theirs, err := b.now.Rows(m.halo, m.halo+1).HostW()
		if err != nil {
			return err
		}
		if _, err := mpi.Sendrecv(b.c, mine, m.to, 0, theirs, m.from, 0); err != nil {
			return err
		}
	}
	return nil
}

// What is added up over all cells.
const (
	water = iota
	east
	south
	energy
	quantities
)

func (b *basin) totals() ([]float64, error) {
	v, err := b.now.Rows(1, b.rows+1).Host()
	if err != nil {
		return nil, err
	}
	sum := make([]float64, quantities)
	for ; len(v) > 0; v = v[cell:] {
		for i, x := range []float64{v[0], v[1], v[2], (v[1]*v[1]+v[2]*v[2])/(2*v[0]) + gravity/2*v[0]*v[0]} {
			sum[i] += x
		}
	}
	return sum, mpi.AllreduceInPlace(b.c, sum, mpi.Sum)
}

// digest is a number that depends on each bit of all cells, and on no order.
func (b *basin) digest(first int) (sum uint64, err error) {
	v, err := b.now.Rows(1, b.rows+1).Host()
	for i, x := range v {
		h := (math.Float64bits(x) ^ uint64(first*b.n*cell+i)*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
		sum += h ^ h>>29
	}
	if err != nil {
		return 0, err
	}
	return mpi.AllreduceValue(b.c, sum, mpi.Sum)
}

// check tells what has not been conserved.
func check(before, after []float64) error {
	small := 1e-10 * before[water]
	for i, name := range []string{"water", "momentum east", "momentum south"} {
		if !(math.Abs(after[i]-before[i]) <= small) {
			return fmt.Errorf("%s was %g and is %g", name, before[i], after[i])
		}
	}
	if !(after[energy] <= before[energy]+small) {
		return fmt.Errorf("energy was %g and is %g", before[energy], after[energy])
	}
	return nil
}
