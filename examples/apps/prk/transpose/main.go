// Transpose adds the transpose of a matrix to another again and again, after the kernel Transpose of the Parallel
// Research Kernels (Van der Wijngaart and Mattson: The Parallel Research Kernels, 2014):
//
//	gorun -np 4 -cr ./examples/apps/prk/transpose -n 4000 -iters 100
//
// Each rank has some rows. One Alltoallw sends each rank the block of columns that become its rows. Layouts say where
// the block is: nothing is packed by the program.
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
	n := flag.Int("n", 1000, "rows and columns of the matrices")
	iters := flag.Int("iters", 10, "iterations")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return transpose(c, *n, *iters, os.Stdout) })
}

// matrices are the rows of both that a rank has.
type matrices struct {
	n, row, rows int
	a, b         []float64
	turned       []float64 // columns of a, one after the other
	send, recv   []mpi.View[float64]
}

// transpose is the program of one rank.
func transpose(c *mpi.Comm, n, iters int, out io.Writer) error {
	if n < 1 || iters < 1 {
		return errors.New("-n and -iters must be positive")
	}
	state, done, m := cr.On(c), 0, newMatrices(c, n)
	if err := errors.Join(state.Register("done", &done), state.Register("a", &m.a), state.Register("b", &m.b)); err != nil {
		return err
	}
	for ; done < iters; done++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := mpi.Alltoallw(c, m.send, m.recv); err != nil {
			return err
		}
		for k, v := range m.turned {
			m.b[k] += v
		}
		for k := range m.a {
			m.a[k]++
		}
	}
	sum := 0.0
	for _, v := range m.b {
		sum += v
	}
	sum, err := mpi.AllreduceValue(c, sum, mpi.Sum)
	if err != nil {
		return err
	}
	app.Report(c, out, "the elements add up to %.0f\n", sum)
	return app.Verdict(c, out, m.check(iters))
}

func newMatrices(c *mpi.Comm, n int) *matrices {
	lo, hi := app.Range(n, c.Size(), c.Rank())
	m := &matrices{n: n, row: lo, rows: hi - lo}
	m.a, m.b, m.turned = make([]float64, m.rows*n), make([]float64, m.rows*n), make([]float64, m.rows*n)
	for i := range m.rows {
		for j := range n {
			m.a[i*n+j] = float64((lo+i)*n + j)
		}
	}
	for r := range c.Size() {
		from, to := app.Range(n, c.Size(), r)
		// What is sent: the columns that are r's rows, each from top to bottom.
		column := mpi.Vector(m.rows, 1, n)
		columns, starts := make([]mpi.Layout, to-from), make([]int, to-from)
		for j := range columns {
			columns[j], starts[j] = column, from+j
		}
		m.send = append(m.send, mpi.View[float64]{Data: m.a, Layout: mpi.Joined(columns, starts)})
		// What is received: pieces of this rank's rows, as long as r has rows.
		m.recv = append(m.recv, mpi.View[float64]{Data: m.turned, Layout: mpi.Vector(m.rows, to-from, n).Shift(from)})
	}
	return m
}

// check compares with what is known. Before iteration i, element (j, k) of a is j n + k + i.
func (m *matrices) check(iters int) error {
	for i := range m.rows {
		for j := range m.n {
			want := float64(iters*(j*m.n+m.row+i) + iters*(iters-1)/2)
			if got := m.b[i*m.n+j]; got != want {
				return fmt.Errorf("element (%d, %d) is %v, not %v", m.row+i, j, got, want)
			}
		}
	}
	return nil
}
