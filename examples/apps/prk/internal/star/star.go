// Package star applies a star-shaped stencil to a rank's part of a square grid, as kernels of the Parallel Research
// Kernels do (Van der Wijngaart and Mattson: The Parallel Research Kernels, 2014).
//
// The weights are those of a discrete divergence, so that the field x+y gives 2 wherever the stencil does not reach
// beyond the end of the grid, whatever is added to all of the field.
package star

import (
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/examples/internal/clock"
	"github.com/gorun-mpi/gorun/mpi"
)

// Field is a part of the grid.
type Field struct {
	In, Out    []float64 // with a frame of ghost cells, and without
	Row, Col   int       // of the grid, where the part begins
	Rows, Cols int       // without the frame
	Clock      clock.Clock
	n, radius  int
	weights    []float64 // of the points so far away, up and to the right; down and to the left they are negative
	grid       *mpi.Cart
	halo       *mpi.Halo[float64]
}

// New divides a grid of n x n points, so far from each other, among the ranks of c. value is what a point begins
// with.
func New(c *mpi.Comm, n, radius int, spacing float64, value func(i, j int) float64) (*Field, error) {
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return nil, err
	}
	grid, err := c.Cart(dims, []bool{false, false}, true)
	if err != nil {
		return nil, err
	}
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	f := &Field{n: n, radius: radius, grid: grid}
	f.Row, f.Col, f.Rows, f.Cols = part(n, dims, at)
	f.In, f.Out = make([]float64, (f.Rows+2*radius)*(f.Cols+2*radius)), make([]float64, f.Rows*f.Cols)
	for i := range f.Rows {
		for j := range f.Cols {
			f.In[f.At(i, j)] = value(f.Row+i, f.Col+j)
		}
	}
	for d := 1; d <= radius; d++ {
		f.weights = append(f.weights, 1/(float64(2*d*radius)*spacing))
	}
	if f.halo, err = mpi.NewHalo(grid, f.In, []int{f.Rows + 2*radius, f.Cols + 2*radius}, radius, false); err != nil {
		return nil, fmt.Errorf("%d x %d points for %v ranks: %w", n, n, dims, err)
	}
	return f, nil
}

func part(n int, dims, at []int) (row, col, rows, cols int) {
	top, bottom := app.Range(n, dims[0], at[0])
	left, right := app.Range(n, dims[1], at[1])
	return top, left, bottom - top, right - left
}

// Holders returns the ranks that have points of a square of the grid.
func (f *Field) Holders(row, col, edge int) (ranks []int, err error) {
	for r := range f.grid.Size() {
		at, err := f.grid.Coords(r)
		if err != nil {
			return nil, err
		}
		top, left, rows, cols := part(f.n, f.grid.Dims(), at)
		if top < row+edge && row < top+rows && left < col+edge && col < left+cols {
			ranks = append(ranks, r)
		}
	}
	return ranks, nil
}

// Ranks returns the communicator of the ranks that have the parts.
func (f *Field) Ranks() *mpi.Comm { return f.grid.Comm }

// At returns the place of a point of the part in In.
func (f *Field) At(i, j int) int { return (i+f.radius)*(f.Cols+2*f.radius) + j + f.radius }

// rows calls g for all rows, from left to right, where the stencil does not reach beyond the end of the grid.
func (f *Field) rows(g func(i, left, right int)) {
	for i := max(f.radius-f.Row, 0); i < min(f.n-f.radius-f.Row, f.Rows); i++ {
		g(i, max(f.radius-f.Col, 0), min(f.n-f.radius-f.Col, f.Cols))
	}
}

// Iterate adds the stencil of In to Out, and then 1 to In.
func (f *Field) Iterate() error {
	f.Clock.Leave()
	err := f.halo.Exchange()
	f.Clock.Return()
	if err != nil {
		return err
	}
	width := f.Cols + 2*f.radius
	f.rows(func(i, left, right int) {
		out := f.Out[i*f.Cols+left : i*f.Cols+right]
		points := func(k int) []float64 { return f.In[k:][:len(out)] }
		for d, w := range f.weights {
			d++
			k := f.At(i, left)
			below, above, east, west := points(k+d*width), points(k-d*width), points(k+d), points(k-d)
			for j := range out {
				out[j] += w * (east[j] - west[j] + below[j] - above[j])
			}
		}
	})
	for i := range f.Rows {
		row := f.In[f.At(i, 0):][:f.Cols]
		for j := range row {
			row[j]++
		}
	}
	return nil
}

// Check returns the mean of what is in Out on all ranks, and tells what is wrong with it after so many iterations.
func (f *Field) Check(iters int) (mean float64, wrong, err error) {
	sum := 0.0
	f.rows(func(i, left, right int) {
		for _, v := range f.Out[i*f.Cols+left : i*f.Cols+right] {
			sum += math.Abs(v)
		}
	})
	if sum, err = mpi.AllreduceValue(f.grid.Comm, sum, mpi.Sum); err != nil {
		return 0, nil, err
	}
	inner := float64(f.n - 2*f.radius)
	mean = sum / (inner * inner)
	if want := float64(2 * iters); !(math.Abs(mean-want) <= 1e-8*want) {
		wrong = fmt.Errorf("the mean is %v, not %v", mean, want)
	}
	return mean, wrong, nil
}
