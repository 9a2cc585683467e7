package main

import (
	"errors"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
)

// small is how small a residual ends a step, as a part of the first one.
const small = 1e-13

// register names the state of a rank between two iterations.
func (s *square) register(state *cr.Registry) error {
	return errors.Join(state.Register("step", &s.step), state.Register("iteration", &s.iteration), state.Register("iterations", &s.iterations),
		state.Register("u", &s.u), state.Register("r", &s.r), state.Register("p", &s.p), state.Register("rr", &s.rr), state.Register("first", &s.first))
}

// iterate does one iteration of conjugate gradients, and ends the step if that was enough. The heat after the step is
// the unknown: what each cell has then and what it has lost to its neighbours is what it had before.
func (s *square) iterate() (err error) {
	if s.iteration == 0 {
		if err := s.begin(); err != nil {
			return err
		}
	}
	s.iteration++
	if err := s.multiply(); err != nil {
		return err
	}
	pap, err := s.dot(s.p, s.ap)
	if err != nil {
		return err
	}
	if s.rr > 0 {
		alpha := s.rr / pap
		s.each(func(lo, hi int) {
			for k := lo; k < hi; k++ {
				s.u[k] += alpha * s.p[k]
				s.r[k] -= alpha * s.ap[k]
			}
		})
	}
	last := s.rr
	if s.rr, err = s.dot(s.r, s.r); err != nil {
		return err
	}
	if !(s.rr > small*small*s.first) {
		s.step, s.iteration, s.iterations = s.step+1, 0, s.iterations+s.iteration
		return nil
	}
	beta := s.rr / last
	s.each(func(lo, hi int) {
		for k := lo; k < hi; k++ {
			s.p[k] = s.r[k] + beta*s.p[k]
		}
	})
	return nil
}

// begin begins a step with the heat of the last one as a guess: the residual is what flows.
func (s *square) begin() (err error) {
	copy(s.p, s.u)
	if err := s.multiply(); err != nil {
		return err
	}
	s.each(func(lo, hi int) {
		for k := lo; k < hi; k++ {
			s.r[k] = s.u[k] - s.ap[k]
			s.p[k] = s.r[k]
		}
	})
	s.rr, err = s.dot(s.r, s.r)
	s.first = s.rr
	return err
}

// multiply makes ap of p. The cells at the border wait for those of the neighbours.
func (s *square) multiply() error {
	borders, err := s.halo.Start()
	if err != nil {
		return err
	}
	for i := 2; i < s.rows-2; i++ {
		s.apply(i, 2, s.cols-2)
	}
	if _, err := borders.Wait(); err != nil {
		return err
	}
	for i := 1; i < s.rows-1; i++ {
		if i == 1 || i == s.rows-2 {
			s.apply(i, 1, s.cols-1)
			continue
		}
		s.apply(i, 1, 2)
		s.apply(i, max(2, s.cols-2), s.cols-1)
	}
	return nil
}

// apply makes ap of p in the columns from lo to hi of row i.
func (s *square) apply(i, lo, hi int) {
	p, kx, ky, cols := s.p, s.kx, s.ky, s.cols
	for k := i*cols + lo; k < i*cols+hi; k++ {
		s.ap[k] = (1+kx[k]+kx[k+1]+ky[k]+ky[k+cols])*p[k] - kx[k]*p[k-1] - kx[k+1]*p[k+1] - ky[k]*p[k-cols] - ky[k+cols]*p[k+cols]
	}
}

func (s *square) dot(a, b []float64) (float64, error) {
	sum := 0.0
	s.each(func(lo, hi int) {
		for k := lo; k < hi; k++ {
			sum += a[k] * b[k]
		}
	})
	return mpi.AllreduceValue(s.grid.Comm, sum, mpi.Sum)
}
