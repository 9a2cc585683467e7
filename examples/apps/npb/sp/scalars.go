package main

import (
	"math"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/adi"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/flow"
)

// scalars solves lines in the characteristic variables of their direction: three that travel with the flow, and
// one each with the sound, up and down the line.
type scalars struct {
	n             int
	first, second float64
	fourth        [][5]float64
	points        []point
	rows          [3][][5]float64 // the diagonals of the systems: with the flow, with the sound, against it
}

// point is what the systems need of a point of the line.
type point struct{ v, sound, spread float64 }

func newScalars(n int, dt float64) adi.Method {
	h := 1 / float64(n-1)
	s := &scalars{n: n, first: dt / (2 * h), second: dt / (h * h), fourth: flow.FourthDifferences(n), points: make([]point, n)}
	for i := range s.fourth {
		for k := range s.fourth[i] {
			s.fourth[i][k] *= dt * flow.Dissipation
		}
	}
	for k := range s.rows {
		s.rows[k] = make([][5]float64, n)
	}
	return s
}

// Line solves the five systems. Those at the ends of the line say that nothing changes there.
func (s *scalars) Line(d int, u, r []flow.Vec, stride int) {
	for i := range s.points {
		w := flow.PrimitiveOf(&u[i*stride])
		// The energy is conducted best, whatever the state.
		s.points[i] = point{w.V[d], w.Sound(), s.second * (flow.Diffusion[d] + flow.C15*flow.C34*w.R)}
	}
	for k, sound := range [3]float64{0, 1, -1} {
		rows := s.rows[k]
		rows[0], rows[s.n-1] = [5]float64{2: 1}, [5]float64{2: 1}
		for i := 1; i < s.n-1; i++ {
			below, above, row := &s.points[i-1], &s.points[i+1], s.fourth[i]
			row[1] -= s.first*(below.v+sound*below.sound) + below.spread
			row[2] += 1 + 2*s.points[i].spread
			row[3] += s.first*(above.v+sound*above.sound) - above.spread
			rows[i] = row
		}
	}
	eliminate(s.rows[0], r, stride, 0, 3)
	eliminate(s.rows[1], r, stride, 3, 4)
	eliminate(s.rows[2], r, stride, 4, 5)
}

// eliminate solves systems of five diagonals, which are lost, for the components from m to end.
func eliminate(rows [][5]float64, r []flow.Vec, stride, m, end int) {
	n := len(rows)
	for i := range n {
		row, b := &rows[i], &r[i*stride]
		f := 1 / row[2]
		row[3] *= f
		row[4] *= f
		for k := m; k < end; k++ {
			b[k] *= f
		}
		if i+1 < n {
			next, nb := &rows[i+1], &r[(i+1)*stride]
			next[2] -= next[1] * row[3]
			next[3] -= next[1] * row[4]
			for k := m; k < end; k++ {
				nb[k] -= next[1] * b[k]
			}
		}
		if i+2 < n {
			next, nb := &rows[i+2], &r[(i+2)*stride]
			next[1] -= next[0] * row[3]
			next[2] -= next[0] * row[4]
			for k := m; k < end; k++ {
				nb[k] -= next[0] * b[k]
			}
		}
	}
	for i := n - 2; i >= 0; i-- {
		row, b, next := &rows[i], &r[i*stride], &r[(i+1)*stride]
		for k := m; k < end; k++ {
			b[k] -= row[3] * next[k]
		}
		if i+2 < n {
			next = &r[(i+2)*stride]
			for k := m; k < end; k++ {
				b[k] -= row[4] * next[k]
			}
		}
	}
}

const half = math.Sqrt2 / 2

// Prepare changes to the characteristic variables along x.
func (s *scalars) Prepare(w *flow.Primitive, r *flow.Vec) {
	c := w.Sound()
	a := flow.C2 / (c * c) * (w.Q*r[0] - w.V[0]*r[1] - w.V[1]*r[2] - w.V[2]*r[3] + r[4])
	b := half * w.R * (w.V[0]*r[0] - r[1])
	e := half * w.R * c * a
	*r = flow.Vec{r[0] - a, -w.R * (w.V[2]*r[0] - r[3]), w.R * (w.V[1]*r[0] - r[2]), e - b, e + b}
}

// Finish changes to those of the next direction, or back to the state.
func (s *scalars) Finish(d int, w *flow.Primitive, u, r *flow.Vec) {
	sum, difference := 0.5*(r[3]+r[4]), half*(r[3]-r[4])
	switch d {
	case 0:
		*r = flow.Vec{-r[1], r[0], difference, sum - half*r[2], sum + half*r[2]}
	case 1:
		*r = flow.Vec{difference, -r[2], r[1], sum - half*r[0], sum + half*r[0]}
	case 2:
		c := w.Sound()
		pressure := half * u[0] / c * (r[3] + r[4])
		density := r[2] + pressure
		momentum := half * u[0] * (r[3] - r[4])
		*r = flow.Vec{
			density,
			w.V[0]*density - u[0]*r[1],
			w.V[1]*density + u[0]*r[0],
			w.V[2]*density + momentum,
			u[0]*(w.V[1]*r[0]-w.V[0]*r[1]) + w.Q*density + c*c*pressure/flow.C2 + w.V[2]*momentum,
		}
	}
}
