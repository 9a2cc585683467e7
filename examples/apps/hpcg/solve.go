package main

import (
	"errors"
	"math"

	"github.com/gorun-mpi/gorun/cr"
)

// solution is the state of the iteration.
type solution struct {
	iteration int
	x, r, p   []float64 // solution so far, residual, direction
	z, ap     []float64 // preconditioned residual, operator times direction: made anew in each iteration
	rz        float64   // r times z of the last iteration
	rr, first float64   // r times r: of the last iteration, and at the start
}

func newSolution(l *level, b []float64) *solution {
	s := &solution{x: l.vector(), r: append([]float64(nil), b...), p: l.vector(), z: l.vector(), ap: l.vector()}
	return s
}

func (s *solution) register(state *cr.Registry) error {
	return errors.Join(state.Register("iteration", &s.iteration), state.Register("x", &s.x), state.Register("r", &s.r), state.Register("p", &s.p),
		state.Register("rz", &s.rz), state.Register("rr", &s.rr), state.Register("first", &s.first))
}

// residual returns that of the solution, as a part of the first one.
func (s *solution) residual() float64 { return math.Sqrt(s.rr / s.first) }

// iterate does one iteration of conjugate gradients. An exact solution stays.
func (s *solution) iterate(l *level, precondition bool) (err error) {
	if s.iteration == 0 {
		if s.first, err = l.dot(s.r, s.r); err != nil {
			return err
		}
		s.rr = s.first
	}
	s.iteration++
	if s.rr == 0 {
		return nil
	}
	if precondition {
		err = l.precondition(s.r, s.z)
	} else {
		copy(s.z, s.r)
	}
	if err != nil {
		return err
	}
	rz, err := l.dot(s.r, s.z)
	if err != nil {
		return err
	}
	beta := 0.0
	if s.iteration > 1 {
		beta = rz / s.rz
	}
	s.rz = rz
	l.each(func(k int) { s.p[k] = s.z[k] + beta*s.p[k] })
	if err := l.multiply(s.p, s.ap); err != nil {
		return err
	}
	pap, err := l.dot(s.p, s.ap)
	if err != nil {
		return err
	}
	alpha := rz / pap
	l.each(func(k int) {
		s.x[k] += alpha * s.p[k]
		s.r[k] -= alpha * s.ap[k]
	})
	s.rr, err = l.dot(s.r, s.r)
	return err
}
