// Package adi is what the NAS benchmarks BT and SP share: implicit steps for the equations of a flow, one direction
// after the other (RNR-94-007, section 3.4.1). They differ in how a line of points is solved.
//
// Each rank has all x of its points, so it solves the lines along x by itself. For those along y and z the ranks of one
// column or row of the grid exchange parts of x, so that each has whole lines; then they exchange back. NAS's programs
// cut the cube diagonally instead, which needs a square number of ranks. Here any grid will do that leaves each rank
// two points.
package adi

import (
	"fmt"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/flow"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// Problem is that of a class, with the published norms of the residual and the error.
type Problem struct {
	N, Steps         int
	DT               float64
	Residuals, Error flow.Vec
}

// Method solves lines of points.
type Method interface {
	// Prepare changes the right-hand side at a point before the lines along x are solved. w is what follows from the
	// state there.
	Prepare(w *flow.Primitive, r *flow.Vec)
	// Line replaces the right-hand sides of a line along d by the solution. Its points lie stride apart in u, the state, and
	// in r. Those at both ends are at faces of the cube, and have no right-hand side.
	Line(d int, u, r []flow.Vec, stride int)
	// Finish changes the solution at a point after the lines along d are solved.
	Finish(d int, w *flow.Primitive, u, r *flow.Vec)
}

// Run runs a benchmark. operations is their number in a step, method that for n points along an edge.
func Run(c *mpi.Comm, name string, p Problem, operations float64, method func(n int, dt float64) Method) (*nas.Report, error) {
	g, err := flow.NewGrid(c, p.N)
	if err != nil {
		return nil, err
	}
	u := g.Initial()
	loop, err := nas.NewLoop(c, map[string]any{"u": &u})
	if err != nil {
		return nil, err
	}
	s, err := newStepper(g, u, p.DT, method(p.N, p.DT))
	if err != nil {
		return nil, err
	}
	seconds, err := loop.Run(p.Steps, func(int) error { return s.step() })
	if err != nil {
		return nil, err
	}
	if err := s.rates(); err != nil {
		return nil, err
	}
	residuals, err := g.Norms(s.r)
	if err != nil {
		return nil, err
	}
	errors, err := g.Errors(u)
	return &nas.Report{
		Name: name, Size: fmt.Sprintf("%dx%dx%d", p.N, p.N, p.N), Iterations: p.Steps, Seconds: seconds,
		Operations: float64(p.Steps) * operations,
		Checks:     append(flow.Checks("residual", residuals, p.Residuals), flow.Checks("error", errors, p.Error)...),
	}, err
}

// stepper does the steps of one rank.
type stepper struct {
	*flow.Grid
	u, r   []flow.Vec
	dt     float64
	halo   *mpi.Halo[flow.Vec]
	method Method
	turned [3]*turn // for lines along y and z; nil: this rank has them whole
}

func newStepper(g *flow.Grid, u []flow.Vec, dt float64, m Method) (*stepper, error) {
	s := &stepper{Grid: g, u: u, r: g.Array(), dt: dt, method: m}
	var err error
	if s.halo, err = g.Halo(u); err != nil {
		return nil, err
	}
	for d := 1; d <= 2; d++ {
		if s.turned[d], err = newTurn(g, d); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// rates sets r to the rates of change of u.
func (s *stepper) rates() error {
	err := s.halo.Exchange()
	s.Rates(s.u, s.r)
	return err
}

// step advances u.
func (s *stepper) step() error {
	if err := s.rates(); err != nil {
		return err
	}
	s.inside(func(p int) {
		for m := range s.r[p] {
			s.r[p][m] *= s.dt
		}
		s.method.Prepare(s.Primitive(p), &s.r[p])
	})
	for d := range 3 {
		if err := s.solve(d); err != nil {
			return err
		}
		s.inside(func(p int) { s.method.Finish(d, s.Primitive(p), &s.u[p], &s.r[p]) })
	}
	s.inside(func(p int) {
		for m, x := range s.r[p] {
			s.u[p][m] += x
		}
	})
	return nil
}

func (s *stepper) inside(f func(p int)) {
	s.Lines(func(first, last int) {
		for p := first; p <= last; p++ {
			f(p)
		}
	})
}

// solve solves all lines along d.
func (s *stepper) solve(d int) error {
	if t := s.turned[d]; t != nil {
		return t.solve(s.method, s.u, s.r)
	}
	a, b := (d+1)%3, (d+2)%3
	if a > b {
		a, b = b, a // neighbouring lines follow each other
	}
	for j := s.Low[b]; j < s.High[b]; j++ {
		for i := s.Low[a]; i < s.High[a]; i++ {
			var at [3]int
			at[a], at[b] = i, j
			p := s.At(at[0], at[1], at[2])
			s.method.Line(d, s.u[p:], s.r[p:], s.Stride[d])
		}
	}
	return nil
}
