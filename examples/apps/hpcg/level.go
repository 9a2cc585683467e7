package main

import "github.com/gorun-mpi/gorun/mpi"

// level is one of the grids. A vector on it has a rank's n^3 points in a frame, whose points belong to neighbours, or
// are 0 beyond the end of the whole grid: a point there would be no unknown.
type level struct {
	grid   *mpi.Cart
	n      int
	halo   *halo
	diag   []float64 // of the operator; all else in a row is -1
	coarse *level    // nil: the last one

	ax, rc, xc []float64 // of multigrid: this operator times x; residual and correction on the coarse grid
}

func newLevel(grid *mpi.Cart, n, most int) (*level, error) {
	h, err := newHalo(grid, n)
	if err != nil {
		return nil, err
	}
	l := &level{grid: grid, n: n, halo: h}
	l.diag, l.ax = l.vector(), l.vector()
	l.each(func(k int) { l.diag[k] = 26 })
	if most > 1 && n%2 == 0 && n > 2 {
		if l.coarse, err = newLevel(grid, n/2, most-1); err != nil {
			return nil, err
		}
		l.rc, l.xc = l.coarse.vector(), l.coarse.vector()
	}
	return l, nil
}

func (l *level) vector() []float64 { return make([]float64, (l.n+2)*(l.n+2)*(l.n+2)) }

// at returns the place of a point in a vector. Points within the cube count from 1.
func (l *level) at(x, y, z int) int { return (x*(l.n+2)+y)*(l.n+2) + z }

// each calls f for the places of all points within the cube.
func (l *level) each(f func(k int)) {
	for x := 1; x <= l.n; x++ {
		for y := 1; y <= l.n; y++ {
			k := l.at(x, y, 0)
			for z := 1; z <= l.n; z++ {
				f(k + z)
			}
		}
	}
}

// around adds the 26 points around place k.
func (l *level) around(x []float64, k int) (sum float64) {
	row, plane := l.n+2, (l.n+2)*(l.n+2)
	for _, p := range [3]int{k - plane, k, k + plane} {
		for _, q := range [3]int{p - row, p, p + row} {
			sum += x[q-1] + x[q] + x[q+1]
		}
	}
	return sum - x[k]
}

// multiply sets y to the operator times x.
func (l *level) multiply(x, y []float64) error {
	if err := l.halo.exchange(x); err != nil {
		return err
	}
	l.each(func(k int) { y[k] = l.diag[k]*x[k] - l.around(x, k) })
	return nil
}

// smooth does a sweep of Gauss and Seidel, forth and back. What neighbours have does not change meanwhile.
func (l *level) smooth(r, x []float64) error {
	if err := l.halo.exchange(x); err != nil {
		return err
	}
	l.each(func(k int) { x[k] = (r[k] + l.around(x, k)) / l.diag[k] })
	for u := l.n; u >= 1; u-- {
		for v := l.n; v >= 1; v-- {
			for w := l.n; w >= 1; w-- {
				k := l.at(u, v, w)
				x[k] = (r[k] + l.around(x, k)) / l.diag[k]
			}
		}
	}
	return nil
}

// precondition sets x to about the solution of operator times x = r: a V cycle of multigrid.
func (l *level) precondition(r, x []float64) error {
	clear(x)
	if err := l.smooth(r, x); err != nil || l.coarse == nil {
		return err
	}
	if err := l.multiply(x, l.ax); err != nil {
		return err
	}
	c := l.coarse
	c.both(l, func(k, fine int) { l.rc[k] = r[fine] - l.ax[fine] })
	if err := c.precondition(l.rc, l.xc); err != nil {
		return err
	}
	c.both(l, func(k, fine int) { x[fine] += l.xc[k] })
	return l.smooth(r, x)
}

// both calls f for each point, with the place of the point of the finer grid that it stands for.
func (l *level) both(fine *level, f func(k, fine int)) {
	for x := 1; x <= l.n; x++ {
		for y := 1; y <= l.n; y++ {
			for z := 1; z <= l.n; z++ {
				f(l.at(x, y, z), fine.at(2*x-1, 2*y-1, 2*z-1))
			}
		}
	}
}

// dot is the product of two vectors of all ranks.
func (l *level) dot(x, y []float64) (float64, error) {
	sum := 0.0
	l.each(func(k int) { sum += x[k] * y[k] })
	return mpi.AllreduceValue(l.grid.Comm, sum, mpi.Sum)
}

// max is the largest value of f on all points.
func (l *level) max(f func(k int) float64) (float64, error) {
	most := 0.0
	l.each(func(k int) { most = max(most, f(k)) })
	return mpi.AllreduceValue(l.grid.Comm, most, mpi.Max)
}

// rightSide returns the operator times a vector of ones.
func (l *level) rightSide() ([]float64, error) {
	ones, b := l.vector(), l.vector()
	l.each(func(k int) { ones[k] = 1 })
	return b, l.multiply(ones, b)
}
