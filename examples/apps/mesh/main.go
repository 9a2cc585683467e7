// Mesh solves Laplace's equation on an unstructured mesh of triangles, by linear finite elements and conjugate
// gradients:
//
//	gorun -np 4 -cr ./examples/apps/mesh -n 300
//
// The vertices are numbered along a curve that fills the square, and each rank has some that follow each other. So its
// neighbours are not regular: a DistGraph has them, and NeighborAlltoallv gets the values at their vertices.
//
// On the border the solution is held at 1 + 2x + 3y. That is the solution inside, too, and linear elements have it
// exactly, whatever the triangles are.
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
	n := flag.Int("n", 100, "vertices along an edge of the square")
	iters := flag.Int("iters", 10_000, "iterations at most")
	flag.Parse()
	mpi.Run(func(c *mpi.Comm) error { return mesh(c, *n, *iters, os.Stdout) })
}

const tolerance = 1e-12 // of the residual, as a part of the first one

func exact(p point) float64 { return 1 + 2*p.X + 3*p.Y }

// solver is the state of the iteration: for each of a rank's vertices the solution, the residual and the direction.
type solver struct {
	*part
	u, r, p, ap []float64
	iteration   int
	rr, first   float64 // square of the residual: now, and at first
}

// mesh is the program of one rank.
func mesh(c *mpi.Comm, n, iters int, out io.Writer) error {
	if n < 2 || n > 1<<15 || iters < 0 {
		return errors.New("-n must be within 2..32768, and -iters not negative")
	}
	m, err := newPart(c, n)
	if err != nil {
		return err
	}
	s, err := newSolver(m)
	if err != nil {
		return err
	}
	state := cr.On(c)
	if err := errors.Join(state.Register("iteration", &s.iteration), state.Register("u", &s.u), state.Register("r", &s.r),
		state.Register("p", &s.p), state.Register("rr", &s.rr)); err != nil {
		return err
	}
	for s.iteration < iters && s.rr > tolerance*tolerance*s.first {
		if err := state.Point(); err != nil {
			return err
		}
		if err := s.iterate(); err != nil {
			return err
		}
	}
	wrong := s.check()
	most, err := mpi.ReduceValue(c, len(m.peers), mpi.Max, 0)
	if err != nil {
		return err
	}
	app.Report(c, out, "%d vertices, no rank has more than %d neighbours, %d iterations\n", n*n, most, s.iteration)
	return app.Verdict(c, out, wrong)
}

// newSolver begins with 0 inside, and the solution on the border.
func newSolver(m *part) (*solver, error) {
	s := &solver{part: m}
	own := len(m.place)
	s.u, s.r, s.p, s.ap = make([]float64, own), make([]float64, own), make([]float64, own), make([]float64, own)
	for i, x := range m.place {
		if m.border[i] {
			s.u[i] = exact(x)
		}
	}
	if err := m.multiply(s.u, s.r); err != nil {
		return nil, err
	}
	for i := range s.r {
		s.r[i] = -s.r[i]
	}
	copy(s.p, s.r)
	var err error
	s.first, err = m.dot(s.r, s.r)
	s.rr = s.first
	return s, err
}

func (s *solver) iterate() error {
	s.iteration++
	if err := s.multiply(s.p, s.ap); err != nil {
		return err
	}
	pap, err := s.dot(s.p, s.ap)
	if err != nil {
		return err
	}
	alpha := s.rr / pap
	for i, p := range s.p {
		s.u[i] += alpha * p
		s.r[i] -= alpha * s.ap[i]
	}
	before := s.rr
	if s.rr, err = s.dot(s.r, s.r); err != nil {
		return err
	}
	for i, r := range s.r {
		s.p[i] = r + s.rr/before*s.p[i]
	}
	return nil
}

// check compares with the solution.
func (s *solver) check() error {
	for i, x := range s.place {
		if d := math.Abs(s.u[i] - exact(x)); !(d <= 1e-8) {
			return fmt.Errorf("at (%g, %g) the solution is off by %g", x.X, x.Y, d)
		}
	}
	return nil
}
