package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
)

// solution is the state of the iteration: everything that a restart needs, and
// nothing that can be computed again.
type solution struct {
	iteration int
	x         []float64 // what is sought
	r         []float64 // residual b - A x, as the recurrence has it
	p         []float64 // search direction, with room for the halo
	rz, rr    float64   // r.z and r.r, z being the preconditioned residual
}

// system is the problem on this rank: A x = b with b such that x is all ones.
type system struct {
	c        *mpi.Comm
	a        *operator
	diagonal []float64
	b        []float64
	bb, bz   float64   // b.b and b.z, z being b preconditioned
	w        []float64 // room for A p, then z
}

// newSystem prepares the rows of this rank.
func newSystem(c *mpi.Comm, rows *block, starts []int) (*system, error) {
	d, err := rows.diagonal()
	if err != nil {
		return nil, err
	}
	s := &system{c: c, a: newOperator(c, rows, starts), diagonal: d}
	s.b, s.w = make([]float64, s.a.rows), make([]float64, s.a.rows)
	ones := s.a.vector()
	for i := range s.a.rows {
		ones[i] = 1
	}
	if err := s.a.apply(s.b, ones); err != nil {
		return nil, err
	}
	if s.bb, err = s.dot(s.b, s.b); err != nil {
		return nil, err
	}
	s.precondition(s.b)
	if s.bz, err = s.dot(s.b, s.w); err != nil {
		return nil, err
	}
	if !(s.bb > 0) || math.IsInf(s.bb, 0) {
		return nil, fmt.Errorf("the right-hand side has norm %g: nothing to solve", math.Sqrt(s.bb))
	}
	return s, nil
}

// dot returns the product of two distributed vectors.
func (s *system) dot(x, y []float64) (float64, error) {
	var a accumulator
	a.addDot(x, y)
	v, err := s.sums(&a)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// start returns the state before the first iteration.
func (s *system) start() *solution {
	u := &solution{x: make([]float64, s.a.rows), r: make([]float64, s.a.rows), p: s.a.vector()}
	s.reset(u)
	return u
}

// reset begins at x = 0.
func (s *system) reset(u *solution) {
	clear(u.x)
	copy(u.r, s.b)
	s.precondition(u.r)
	copy(u.p, s.w)
	u.rr, u.rz = s.bb, s.bz
}

// register names the state to the checkpointer. After a restart u holds on
// return what it held at the checkpoint.
func (u *solution) register(reg *cr.Registry, s *system) error {
	err := errors.Join(
		reg.Register("iteration", &u.iteration),
		reg.Register("x", &u.x), reg.Register("r", &u.r), reg.Register("p", &u.p),
		reg.Register("rz", &u.rz), reg.Register("rr", &u.rr))
	if err != nil {
		return err
	}
	return u.check(s)
}

// check reports a state that is not one of this system.
func (u *solution) check(s *system) error {
	if len(u.x) != s.a.rows || len(u.r) != s.a.rows || len(u.p) != s.a.rows+s.a.halo {
		return fmt.Errorf("the snapshot holds %d rows on this rank, the matrix has %d: not the same problem", len(u.x), s.a.rows)
	}
	return nil
}

// precondition sets w = r / diagonal.
func (s *system) precondition(r []float64) {
	for i := range s.w {
		s.w[i] = r[i] / s.diagonal[i]
	}
}

// converged is a relative residual at which x has long stopped changing.
const converged = 0x1p-60

// step does one iteration of preconditioned conjugate gradients. Where nothing
// is left to do it begins again at x = 0, as HPCG does: each of a fixed number
// of iterations is work that the result depends on.
func (s *system) step(u *solution) error {
	if s.residual(u) < converged {
		s.reset(u)
	}
	n := s.a.rows
	if err := s.a.apply(s.w, u.p); err != nil {
		return err
	}
	pap, err := s.dot(u.p[:n], s.w)
	if err != nil {
		return err
	}
	if !(pap > 0) {
		return fmt.Errorf("iteration %d: p.Ap is %g: not a positive definite matrix", u.iteration+1, pap)
	}
	alpha := u.rz / pap
	for i := range n {
		u.x[i] += float64(alpha * u.p[i])
		u.r[i] -= float64(alpha * s.w[i])
	}
	s.precondition(u.r)
	var rz, rr accumulator
	rz.addDot(u.r, s.w)
	rr.addDot(u.r, u.r)
	v, err := s.sums(&rz, &rr)
	if err != nil {
		return err
	}
	beta := v[0] / u.rz
	u.rz, u.rr = v[0], v[1]
	for i := range n {
		u.p[i] = s.w[i] + float64(beta*u.p[i])
	}
	u.iteration++
	return nil
}

// residual is the norm of the recurrence's residual relative to that of b.
func (s *system) residual(u *solution) float64 { return math.Sqrt(u.rr / s.bb) }

// trueResidual is the norm of b - A x relative to that of b.
func (s *system) trueResidual(u *solution) (float64, error) {
	x := s.a.vector()
	copy(x, u.x)
	if err := s.a.apply(s.w, x); err != nil {
		return 0, err
	}
	for i, b := range s.b {
		s.w[i] = b - s.w[i]
	}
	rr, err := s.dot(s.w, s.w)
	return math.Sqrt(rr / s.bb), err
}
