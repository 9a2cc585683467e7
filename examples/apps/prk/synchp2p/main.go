// Synchp2p goes through a grid in an order in which each point needs those above and to the left, after the kernel
// Synch_p2p of the Parallel Research Kernels (Van der Wijngaart and Mattson: The Parallel Research Kernels, 2014):
//
//	gorun -np 4 -cr ./examples/apps/prk/synchp2p -m 4000 -n 4000 -iters 100
//
// Each rank has some columns. It does a row as soon as the rank to its left has, so all ranks are at work, each in
// another row. The messages, one number for each row or for -group rows, are persistent.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

func main() {
	m := flag.Int("m", 1000, "columns of the grid")
	n := flag.Int("n", 1000, "rows of the grid")
	iters := flag.Int("iters", 10, "iterations")
	group := flag.Int("group", 1, "rows that a message is for")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return synchp2p(c, *m, *n, *iters, *group, os.Stdout) })
}

// pipe is a rank's columns, and its place in the row of ranks.
type pipe struct {
	c          *mpi.Comm
	n, group   int
	cols       int       // with one of the rank to the left, or the border of the grid
	v          []float64 // row by row
	in, out    []float64 // the messages
	recv, send *mpi.Persistent
	last       mpi.Request // the send before
}

// synchp2p is the program of one rank.
func synchp2p(c *mpi.Comm, m, n, iters, group int, out io.Writer) error {
	if m-1 < c.Size() || n < 2 || iters < 1 || group < 1 {
		return fmt.Errorf("-m must be larger than the number of ranks (%d), -n larger than 1, -iters and -group positive", c.Size())
	}
	p, err := newPipe(c, m, n, group)
	if err != nil {
		return err
	}
	state, done := cr.On(c), 0
	if err := errors.Join(state.Register("done", &done), state.Register("grid", &p.v)); err != nil {
		return err
	}
	for ; done < iters; done++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := p.sweep(); err != nil {
			return err
		}
	}
	corner, err := mpi.BcastValue(c, p.v[len(p.v)-1], c.Size()-1)
	if err != nil {
		return err
	}
	app.Report(c, out, "the last point is %.0f\n", corner)
	return app.Verdict(c, out, check(corner, m, n, iters))
}

// newPipe divides the columns but the first, which is the border of the grid: point (i, j) of the borders is i + j.
func newPipe(c *mpi.Comm, m, n, group int) (*pipe, error) {
	lo, hi := app.Range(m-1, c.Size(), c.Rank())
	p := &pipe{c: c, n: n, group: group, cols: hi - lo + 1, v: make([]float64, n*(hi-lo+1)), in: make([]float64, group), out: make([]float64, group)}
	for j := range p.cols {
		p.v[j] = float64(lo + j)
	}
	left, right := c.Rank()-1, c.Rank()+1
	if left < 0 {
		left = mpi.ProcNull
		for i := range n {
			p.v[i*p.cols] = float64(i)
		}
	}
	if right == c.Size() {
		right = mpi.ProcNull
	}
	var err error
	if p.recv, err = mpi.RecvInit(c, p.in, left, 0); err != nil {
		return nil, err
	}
	p.send, err = mpi.SendInit(c, p.out, right, 0)
	return p, err
}

// sweep goes through all rows. Then the last point, with its sign changed, becomes the first: so each iteration needs
// the one before.
func (p *pipe) sweep() error {
	for row := 1; row < p.n; row += p.group {
		if err := p.rows(row, min(row+p.group, p.n)); err != nil {
			return err
		}
	}
	if _, err := p.last.Wait(); err != nil {
		return err
	}
	p.last = mpi.Request{}
	last, first := p.c.Size()-1, -p.v[len(p.v)-1]
	if p.c.Size() > 1 {
		switch p.c.Rank() {
		case last:
			return mpi.SendValue(p.c, first, 0, 1)
		case 0:
			var err error
			if first, _, err = mpi.RecvValue[float64](p.c, last, 1); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	p.v[0] = first
	return nil
}

// rows does the rows from lo to hi when the rank to the left has done them.
func (p *pipe) rows(lo, hi int) error {
	r, err := p.recv.Start()
	if err != nil {
		return err
	}
	if _, err := r.Wait(); err != nil {
		return err
	}
	if _, err := p.last.Wait(); err != nil { // out is free again
		return err
	}
	for i := lo; i < hi; i++ {
		above, row := p.v[(i-1)*p.cols:][:p.cols], p.v[i*p.cols:][:p.cols]
		if p.c.Rank() > 0 {
			row[0] = p.in[i-lo]
		}
		for j := 1; j < p.cols; j++ {
			row[j] = above[j] + row[j-1] - above[j-1]
		}
		p.out[i-lo] = row[p.cols-1]
	}
	p.last, err = p.send.Start()
	return err
}

// check compares with what is known of the last point.
func check(corner float64, m, n, iters int) error {
	if want := float64(iters * (m + n - 2)); corner != want {
		return fmt.Errorf("the last point is %v, not %v", corner, want)
	}
	return nil
}
