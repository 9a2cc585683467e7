package main

import (
	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

// material is what a rectangle is filled with at first.
type material struct {
	left, right, low, high float64
	density, energy        float64 // energy of a unit of mass
}

// The materials of TeaLeaf's benchmarks. A later one replaces an earlier one.
var materials = []material{
	{0, edge, 0, edge, 100, .0001},
	{0, 1, 1, 2, .1, 25},
	{1, 6, 1, 2, .1, .1},
	{5, 6, 1, 8, .1, .1},
	{5, 10, 7, 8, .1, .1},
}

// materialAt returns that of a cell in row i and column j of n.
func materialAt(i, j, n int) (m material) {
	x, y := (float64(j)+.5)*edge/float64(n), (float64(i)+.5)*edge/float64(n)
	for _, of := range materials {
		if x > of.left && x < of.right && y > of.low && y < of.high {
			m = of
		}
	}
	return m
}

// square is a rank's part, in a frame of its neighbours' cells.
type square struct {
	grid       *mpi.Cart
	n          int // cells of the whole along an edge
	rows, cols int // with the frame
	halo       *mpi.Halo[float64]
	density    []float64
	kx, ky     []float64 // what a step conducts between a cell and the one to its left, and the one below

	step, iteration, iterations int       // done: steps, iterations of this step, iterations of all
	u, r, p                     []float64 // heat of a unit of volume, residual, direction
	ap                          []float64 // the operator times p: made anew in each iteration
	rr, first                   float64   // r times r: now, and when the step began
}

func newSquare(grid *mpi.Cart, n int) (*square, error) {
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return nil, err
	}
	dims := grid.Dims()
	low, high := app.Range(n, dims[0], at[0])
	left, right := app.Range(n, dims[1], at[1])
	s := &square{grid: grid, n: n, rows: high - low + 2, cols: right - left + 2}
	for _, v := range []*[]float64{&s.density, &s.kx, &s.ky, &s.u, &s.r, &s.p, &s.ap} {
		*v = make([]float64, s.rows*s.cols)
	}
	for i := range s.rows {
		for j := range s.cols {
			s.fill(i*s.cols+j, low+i-1, left+j-1)
		}
	}
	s.halo, err = mpi.NewHalo(grid, s.p, []int{s.rows, s.cols}, 1, false)
	return s, err
}

// fill fills cell k, which is in row i and column j of the whole.
func (s *square) fill(k, i, j int) {
	m := materialAt(i, j, s.n)
	s.density[k], s.u[k] = m.density, m.density*m.energy
	inside := func(i int) bool { return i >= 0 && i < s.n }
	if inside(i) && inside(j) && inside(j-1) {
		s.kx[k] = s.conducts(m, materialAt(i, j-1, s.n))
	}
	if inside(i) && inside(j) && inside(i-1) {
		s.ky[k] = s.conducts(m, materialAt(i-1, j, s.n))
	}
}

// conducts is what a step conducts between two cells, of which each conducts as well as it is dense.
func (s *square) conducts(a, b material) float64 {
	width := edge / float64(s.n)
	return (a.density + b.density) / (2 * a.density * b.density) * dt / (width * width)
}

// each calls f for the rows of cells within the frame.
func (s *square) each(f func(lo, hi int)) {
	for i := 1; i < s.rows-1; i++ {
		f(i*s.cols+1, (i+1)*s.cols-1)
	}
}

// totals returns the heat of the whole, and its temperature: heat weighed by mass.
func (s *square) totals() (heat, temperature float64, err error) {
	sum := make([]float64, 2)
	volume := edge * edge / (float64(s.n) * float64(s.n))
	s.each(func(lo, hi int) {
		for k := lo; k < hi; k++ {
			sum[0] += s.u[k] * volume
			sum[1] += s.u[k] * volume * s.density[k]
		}
	})
	err = mpi.AllreduceInPlace(s.grid.Comm, sum, mpi.Sum)
	return sum[0], sum[1], err
}
