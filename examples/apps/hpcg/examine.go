package main

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// examine does the tests that HPCG begins with, and tells what they have found wrong.
func examine(l *level) (wrong, err error) {
	if wrong, err = symmetric(l, "the operator", l.multiply); wrong != nil || err != nil {
		return wrong, err
	}
	if wrong, err = symmetric(l, "the preconditioner", l.precondition); wrong != nil || err != nil {
		return wrong, err
	}
	return spectral(l)
}

// symmetric tests that x times A y is y times A x, but for rounding.
func symmetric(l *level, name string, apply func(x, y []float64) error) (wrong, err error) {
	x, y, z := l.vector(), l.vector(), l.vector()
	r := rand.New(rand.NewPCG(uint64(l.grid.Rank()), 6))
	l.each(func(k int) { x[k], y[k] = r.Float64(), r.Float64() })
	var both [2]float64
	for i, v := range [2][2][]float64{{x, y}, {y, x}} {
		if err := apply(v[1], z); err != nil {
			return nil, err
		}
		if both[i], err = l.dot(v[0], z); err != nil {
			return nil, err
		}
	}
	if !(math.Abs(both[0]-both[1]) <= 1e-11*math.Abs(both[0])) {
		return fmt.Errorf("%s is not symmetric: %v and %v", name, both[0], both[1]), nil
	}
	return nil, nil
}

// spectral tests the iteration on a system whose rows are multiplied so that the diagonal outweighs the rest by far.
// It has ten different values, so twelve iterations without the preconditioner are enough, and two with it.
func spectral(l *level) (wrong, err error) {
	before := append([]float64(nil), l.diag...)
	defer copy(l.diag, before)
	b, err := l.rightSide()
	if err != nil {
		return nil, err
	}
	row := 0
	l.each(func(k int) {
		scale := 1e6
		if row++; l.grid.Rank() == 0 && row <= 9 {
			scale *= float64(row + 1)
		}
		l.diag[k], b[k] = l.diag[k]*scale, b[k]*scale
	})
	for _, preconditioned := range []bool{false, true} {
		most := 12
		if preconditioned {
			most = 2
		}
		s := newSolution(l, b)
		for s.iteration < most {
			if err := s.iterate(l, preconditioned); err != nil {
				return nil, err
			}
		}
		if !(s.residual() <= 1e-12) {
			return fmt.Errorf("residual %g after %d iterations where the diagonal is large (preconditioned: %v)", s.residual(), most, preconditioned), nil
		}
	}
	return nil, nil
}
