// Stencil applies a star-shaped stencil to a square grid again and again, after the kernel Stencil of the Parallel
// Research Kernels (Van der Wijngaart and Mattson: The Parallel Research Kernels, 2014):
//
//	gorun -np 4 -cr ./examples/apps/prk/stencil -n 4000 -iters 100 -radius 2
//
// The weights are those of a discrete divergence, so that each application to the field x+y gives 2 everywhere, and
// the field grows by 1 in between, which changes nothing.
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
	n := flag.Int("n", 1000, "points along an edge of the grid")
	iters := flag.Int("iters", 10, "iterations")
	radius := flag.Int("radius", 2, "how many points the stencil reaches")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return stencil(c, *n, *iters, *radius, os.Stdout) })
}

// field is a rank's part of the grid: in with a frame of ghost cells, out without.
type field struct {
	n, radius, row, col int
	rows, cols          int // without the frame
	in, out             []float64
	weights             []float64 // of the points so far away, up and to the right; down and to the left they are negative
}

// stencil is the program of one rank.
func stencil(c *mpi.Comm, n, iters, radius int, out io.Writer) error {
	if radius < 1 || n < 2*radius+1 || iters < 1 {
		return errors.New("-radius and -iters must be positive, and -n larger than twice the radius")
	}
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return err
	}
	grid, err := c.Cart(dims, []bool{false, false}, true)
	if err != nil {
		return err
	}
	f, err := newField(grid, n, radius)
	if err != nil {
		return err
	}
	halo, err := mpi.NewHalo(grid, f.in, []int{f.rows + 2*radius, f.cols + 2*radius}, radius, false)
	if err != nil {
		return fmt.Errorf("%d x %d points for %v ranks: %w", n, n, dims, err)
	}
	state, done := cr.On(c), 0
	if err := errors.Join(state.Register("done", &done), state.Register("in", &f.in), state.Register("out", &f.out)); err != nil {
		return err
	}
	for ; done < iters; done++ {
		if err := state.Point(); err != nil {
			return err
		}
		if err := halo.Exchange(); err != nil {
			return err
		}
		f.apply()
	}
	norm, err := f.norm(c)
	if err != nil {
		return err
	}
	app.Report(c, out, "%v ranks, the mean is %.12f\n", dims, norm)
	return app.Verdict(c, out, check(norm, iters))
}

func newField(grid *mpi.Cart, n, radius int) (*field, error) {
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	dims := grid.Dims()
	top, bottom := app.Range(n, dims[0], at[0])
	left, right := app.Range(n, dims[1], at[1])
	f := &field{n: n, radius: radius, row: top, col: left, rows: bottom - top, cols: right - left}
	f.in, f.out = make([]float64, (f.rows+2*radius)*(f.cols+2*radius)), make([]float64, f.rows*f.cols)
	for i := range f.rows {
		for j := range f.cols {
			f.in[f.at(i, j)] = float64(top + i + left + j)
		}
	}
	for d := 1; d <= radius; d++ {
		f.weights = append(f.weights, 1/float64(2*d*radius))
	}
	return f, nil
}

// at returns the place of a point in the field with the frame.
func (f *field) at(i, j int) int { return (i+f.radius)*(f.cols+2*f.radius) + j + f.radius }

// each calls g for all points where the stencil does not reach beyond the end of the grid.
func (f *field) each(g func(i, j int)) {
	for i := max(f.radius-f.row, 0); i < min(f.n-f.radius-f.row, f.rows); i++ {
		for j := max(f.radius-f.col, 0); j < min(f.n-f.radius-f.col, f.cols); j++ {
			g(i, j)
		}
	}
}

// apply adds the stencil of in to out, and then 1 to in.
func (f *field) apply() {
	width := f.cols + 2*f.radius
	f.each(func(i, j int) {
		k, sum := f.at(i, j), 0.0
		for d, w := range f.weights {
			d++
			sum += w * (f.in[k+d] - f.in[k-d] + f.in[k+d*width] - f.in[k-d*width])
		}
		f.out[i*f.cols+j] += sum
	})
	for i := range f.rows {
		for j := range f.cols {
			f.in[f.at(i, j)]++
		}
	}
}

// norm is the mean of what is in out.
func (f *field) norm(c *mpi.Comm) (float64, error) {
	sum := 0.0
	f.each(func(i, j int) { sum += math.Abs(f.out[i*f.cols+j]) })
	inner := float64(f.n - 2*f.radius)
	sum, err := mpi.AllreduceValue(c, sum, mpi.Sum)
	return sum / (inner * inner), err
}

// check compares with 2 for each iteration.
func check(norm float64, iters int) error {
	if want := float64(2 * iters); !(math.Abs(norm-want) <= 1e-8*want) {
		return fmt.Errorf("the mean is %v, not %v", norm, want)
	}
	return nil
}
