// Package cg solves a sparse symmetric positive definite system of equations by preconditioned conjugate
// gradients. It has some of the system's rows, and asks for the others through Messages. It knows nothing of
// how messages travel.
package cg

import (
	"fmt"
	"math"
)

// Solution is the state of the iteration: everything that a restart needs, and
// nothing that can be computed again.
type Solution struct {
	Iteration int
	X         []float64 // what is sought
	R         []float64 // residual b - A x, as the recurrence has it
	P         []float64 // search direction, with room for the halo
	RZ, RR    float64   // r.z and r.r, z being the preconditioned residual
}

// System is the problem on this rank: A x = b with b such that x is all ones.
type System struct {
	a      *Operator
	m      Messages
	b      []float64
	bb, bz float64   // b.b and b.z, z being b preconditioned
	w      []float64 // room for A p, then z
	sent   []int64   // room for the parts of two sums
}

// NewSystem prepares the rows of this rank.
func NewSystem(a *Operator, m Messages) (*System, error) {
	s := &System{a: a, m: m, b: make([]float64, a.rows), w: make([]float64, a.rows)}
	s.sent = make([]int64, MostNumbers)
	ones := a.vector()
	for i := range a.rows {
		ones[i] = 1
	}
	if err := s.apply(s.b, ones); err != nil {
		return nil, err
	}
	s.precondition(s.b)
	var err error
	if s.bz, s.bb, err = s.dots(s.b, s.w); err != nil {
		return nil, err
	}
	if !(s.bb > 0) || math.IsInf(s.bb, 0) {
		return nil, fmt.Errorf("the right-hand side has norm %g: nothing to solve", math.Sqrt(s.bb))
	}
	return s, nil
}

// apply sets y = A x; x has room for the halo, which is fetched. Rows that
// need nothing of others are computed while the messages travel.
func (s *System) apply(y, x []float64) error {
	if err := s.m.Fetch(x); err != nil {
		return err
	}
	s.a.multiply(y, x, s.a.inner)
	if err := s.m.Fetched(); err != nil {
		return err
	}
	s.a.multiply(y, x, s.a.outer)
	return nil
}

// part is this rank's share of sum number i, to begin with 0.
func (s *System) part(i int) *accumulator {
	a := (*accumulator)(s.sent[i*len(accumulator{}):])
	*a = accumulator{}
	return a
}

// dot returns the product of two distributed vectors.
func (s *System) dot(x, y []float64) (float64, error) {
	a := s.part(0)
	a.addDot(x, y)
	err := s.m.Sum(a[:])
	return a.value(), err
}

// dots returns x.y and x.x.
func (s *System) dots(x, y []float64) (xy, xx float64, err error) {
	a, b := s.part(0), s.part(1)
	a.addDot(x, y)
	b.addDot(x, x)
	err = s.m.Sum(s.sent)
	return a.value(), b.value(), err
}

// Start returns the state before the first iteration.
func (s *System) Start() *Solution {
	u := &Solution{X: make([]float64, s.a.rows), R: make([]float64, s.a.rows), P: s.a.vector()}
	s.reset(u)
	return u
}

// reset begins at x = 0.
func (s *System) reset(u *Solution) {
	clear(u.X)
	copy(u.R, s.b)
	s.precondition(u.R)
	copy(u.P, s.w)
	u.RR, u.RZ = s.bb, s.bz
}

// precondition sets w = r / diagonal.
func (s *System) precondition(r []float64) {
	w := s.w
	diagonal := s.a.diagonal[:len(w)]
	r = r[:len(w)]
	for i := range w {
		w[i] = r[i] / diagonal[i]
	}
}

// converged is a relative residual at which x has long stopped changing.
const converged = 0x1p-60

// Step does one iteration of preconditioned conjugate gradients. Where nothing
// is left to do it begins again at x = 0, as HPCG does: each of a fixed number
// of iterations is work that the result depends on.
func (s *System) Step(u *Solution) error {
	if s.Residual(u) < converged {
		s.reset(u)
	}
	if err := s.apply(s.w, u.P); err != nil {
		return err
	}
	pap, err := s.dot(u.P[:s.a.rows], s.w)
	if err != nil {
		return err
	}
	if !(pap > 0) {
		return fmt.Errorf("iteration %d: p.Ap is %g: not a positive definite matrix", u.Iteration+1, pap)
	}
	alpha := u.RZ / pap
	addTimes(u.X, alpha, u.P)
	addTimes(u.R, -alpha, s.w)
	s.precondition(u.R)
	rz, rr, err := s.dots(u.R, s.w)
	if err != nil {
		return err
	}
	timesAdd(u.P, rz/u.RZ, s.w)
	u.RZ, u.RR = rz, rr
	u.Iteration++
	return nil
}

// addTimes sets y = y + a x.
func addTimes(y []float64, a float64, x []float64) {
	x = x[:len(y)]
	for i := range y {
		y[i] += float64(a * x[i])
	}
}

// timesAdd sets y = a y + x, as far as x goes.
func timesAdd(y []float64, a float64, x []float64) {
	y = y[:len(x)]
	for i := range x {
		y[i] = x[i] + float64(a*y[i])
	}
}

// Residual is the norm of the recurrence's residual relative to that of b.
func (s *System) Residual(u *Solution) float64 { return math.Sqrt(u.RR / s.bb) }

// TrueResidual is the norm of b - A x relative to that of b.
func (s *System) TrueResidual(u *Solution) (float64, error) {
	x := s.a.vector()
	copy(x, u.X)
	if err := s.apply(s.w, x); err != nil {
		return 0, err
	}
	for i, b := range s.b {
		s.w[i] = b - s.w[i]
	}
	rr, err := s.dot(s.w, s.w)
	return math.Sqrt(rr / s.bb), err
}
