// Dgemm multiplies matrices again and again, after the kernel DGEMM of the Parallel Research Kernels (Van der Wijngaart
// and Mattson: The Parallel Research Kernels, 2014), by the algorithm SUMMA (van de Geijn and Watts, 1997):
//
//	gorun -np 4 -cr ./examples/apps/prk/dgemm -n 1000 -iters 10
//
// Ranks are a grid, and each has a block of every matrix. Panels of a go from rank to rank along the rows of the grid,
// panels of b along its columns. A rank passes a panel on before it multiplies, so ranks behind it do not wait.
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
	n := flag.Int("n", 500, "rows and columns of the matrices")
	width := flag.Int("width", 32, "columns of a panel at most")
	iters := flag.Int("iters", 10, "iterations")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return dgemm(c, *n, *width, *iters, os.Stdout) })
}

// blocks are a rank's parts of the matrices. Each element of the factors is the number of its column.
type blocks struct {
	n, left, rows, cols int
	row, col            *mpi.Cart // the ranks of this one's row and of its column, each in a ring
	a, b, c             []float64
	done, k             int // iterations, and columns of a in this one
	sending             []mpi.Request
}

// dgemm is the program of one rank.
func dgemm(c *mpi.Comm, n, width, iters int, out io.Writer) error {
	if n < 1 || width < 1 || iters < 1 {
		return errors.New("-n, -width and -iters must be positive")
	}
	m, err := divide(c, n)
	if err != nil {
		return err
	}
	state := cr.On(c)
	if err := errors.Join(state.Register("done", &m.done), state.Register("k", &m.k), state.Register("c", &m.c)); err != nil {
		return err
	}
	for m.done < iters {
		if err := state.Point(); err != nil {
			return err
		}
		if err := m.step(width); err != nil {
			return err
		}
		if m.k == n {
			m.k, m.done = 0, m.done+1
		}
	}
	sum := 0.0
	for _, v := range m.c {
		sum += v
	}
	if sum, err = mpi.AllreduceValue(c, sum, mpi.Sum); err != nil {
		return err
	}
	app.Report(c, out, "%d x %d ranks, the elements of the product add up to %.0f\n", m.col.Size(), m.row.Size(), sum)
	return app.Verdict(c, out, m.check(iters))
}

func divide(c *mpi.Comm, n int) (*blocks, error) {
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return nil, err
	}
	grid, err := c.Cart(dims, []bool{true, true}, false) // a restart finds its state at the same points
	if err != nil {
		return nil, err
	}
	row, err1 := grid.Sub([]bool{false, true})
	col, err2 := grid.Sub([]bool{true, false})
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	top, bottom := app.Range(n, dims[0], col.Rank())
	left, right := app.Range(n, dims[1], row.Rank())
	m := &blocks{n: n, left: left, rows: bottom - top, cols: right - left, row: row, col: col}
	m.a, m.c = make([]float64, m.rows*m.cols), make([]float64, m.rows*m.cols)
	for k := range m.a {
		m.a[k] = float64(left + k%m.cols)
	}
	m.b = m.a
	return m, nil
}

// step multiplies the next columns of a by the rows of b with the same numbers, as many as one rank of each has.
func (m *blocks) step(width int) error {
	from, above := app.Owner(m.n, m.row.Size(), m.k), app.Owner(m.n, m.col.Size(), m.k)
	first, endA := app.Range(m.n, m.row.Size(), from)
	top, endB := app.Range(m.n, m.col.Size(), above)
	w := min(width, endA-m.k, endB-m.k)
	a, b := make([]float64, m.rows*w), m.b
	if m.row.Rank() == from {
		columns := mpi.View[float64]{Data: m.a, Layout: mpi.Vector(m.rows, w, m.cols).Shift(m.k - first)}
		if _, err := columns.Pack(a); err != nil {
			return err
		}
	}
	if m.col.Rank() == above {
		b = m.b[(m.k-top)*m.cols:][:w*m.cols]
	} else {
		b = make([]float64, w*m.cols)
	}
	if err := errors.Join(m.pass(m.row, a, from), m.pass(m.col, b, above)); err != nil {
		return err
	}
	for i := range m.rows {
		sum := m.c[i*m.cols:][:m.cols]
		for l, f := range a[i*w:][:w] {
			for j, v := range b[l*m.cols:][:m.cols] {
				sum[j] += f * v
			}
		}
	}
	m.k += w
	_, err := mpi.Waitall(m.sending)
	m.sending = m.sending[:0]
	return err
}

// pass passes a panel around a ring, from the rank that has it to the one before that.
func (m *blocks) pass(ring *mpi.Cart, panel []float64, from int) error {
	before, next, err := ring.Shift(0, 1)
	if err != nil {
		return err
	}
	if ring.Rank() != from {
		if _, err := mpi.Recv(ring.Comm, panel, before, 0); err != nil {
			return err
		}
	}
	if next != from {
		r, err := mpi.Isend(ring.Comm, panel, next, 0)
		m.sending = append(m.sending, r)
		return err
	}
	return nil
}

// check compares with what is known: in each iteration, element (i, j) grows by j times the sum of all column numbers.
func (m *blocks) check(iters int) error {
	for k, got := range m.c {
		j := m.left + k%m.cols
		if want := float64(iters * j * (m.n * (m.n - 1) / 2)); got != want {
			return fmt.Errorf("an element of column %d is %v, not %v", j, got, want)
		}
	}
	return nil
}
