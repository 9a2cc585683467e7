package main

import (
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/flow"
	"github.com/gorun-mpi/gorun/mpi"
)

// block is the number of points along x after which a rank hands on what it has. With fewer the next ranks begin
// sooner, with more there are fewer messages.
const block = 4

// sweeper solves (D + w L) D^-1 (D + w U) v = dt v, D, L and U being the diagonal and the triangles of the linear
// system of an implicit step, in two sweeps over the cube: up for the lower triangle, down for the upper one.
type sweeper struct {
	*flow.Grid
	v       []flow.Vec
	dt      float64
	first   float64 // factors of the Jacobians of what flows, what is conducted, and of the artificial diffusion
	second  float64
	spread  [3]float64
	whole   float64 // the diagonal: but for what is conducted, and the factors of that
	moments float64
	energy  float64
}

func newSweeper(g *flow.Grid, v []flow.Vec, dt float64) *sweeper {
	t := 1 / (g.H * g.H)
	s := &sweeper{Grid: g, v: v, dt: dt, first: dt / (2 * g.H), second: dt * t, whole: 1,
		moments: 2 * dt * t * flow.C34 * (3 + 1./3), energy: 2 * dt * t * flow.C34 * flow.C15 * 3}
	for d, x := range flow.Diffusion {
		s.spread[d] = dt * t * x
		s.whole += 2 * dt * t * x
	}
	return s
}

// relax replaces v.
func (s *sweeper) relax() error {
	s.Lines(func(first, last int) {
		for p := first; p <= last; p++ {
			for m := range s.v[p] {
				s.v[p][m] *= s.dt
			}
		}
	})
	for x := s.Low[0]; x < s.High[0]; x += block {
		if err := s.stage(x, min(x+block, s.High[0]), -1); err != nil {
			return err
		}
	}
	for x := s.High[0]; x > s.Low[0]; x -= block {
		if err := s.stage(max(x-block, s.Low[0]), x, +1); err != nil {
			return err
		}
	}
	return nil
}

// stage does the points from x to end. They need those on the given side of each.
func (s *sweeper) stage(x, end, side int) error {
	if err := s.messages(x, end, side, true); err != nil {
		return err
	}
	if side < 0 {
		for z := s.Low[2]; z < s.High[2]; z++ {
			for y := s.Low[1]; y < s.High[1]; y++ {
				for p := s.At(x, y, z); p < s.At(end, y, z); p++ {
					s.lower(p)
				}
			}
		}
	} else {
		for z := s.High[2] - 1; z >= s.Low[2]; z-- {
			for y := s.High[1] - 1; y >= s.Low[1]; y-- {
				for p := s.At(end, y, z) - 1; p >= s.At(x, y, z); p-- {
					s.upper(p)
				}
			}
		}
	}
	return s.messages(x, end, side, false)
}

// messages receives the faces on the given side into the ghost cells, or sends those on the other side.
func (s *sweeper) messages(x, end, side int, receive bool) error {
	for d := 1; d <= 2; d++ {
		below, above, err := s.T.Shift(2-d, 1)
		if err != nil {
			return err
		}
		if side > 0 {
			below, above = above, below
		}
		if receive {
			_, err = mpi.RecvView(s.T.Comm, s.face(x, end, d, side, true), below, d)
		} else {
			err = mpi.SendView(s.T.Comm, s.face(x, end, d, -side, false), above, d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// face picks the ghost cells that lie next to this rank's points along d, or the points there.
func (s *sweeper) face(x, end, d, side int, ghosts bool) mpi.View[flow.Vec] {
	sub := []int{s.Size[2], s.Size[1], end - x}
	start := s.Start()
	start[2] += x
	at := 0
	if side > 0 {
		at = s.Size[d] - 1
	}
	if ghosts {
		at += side
	}
	sub[2-d] = 1
	start[2-d] += at
	return mpi.View[flow.Vec]{Data: s.v, Layout: mpi.Subarray(s.Dims(), sub, start)}
}

// coupled returns what the neighbours of p on one side (-1 or +1) contribute: the triangle's block of each times its v.
func (s *sweeper) coupled(p, side int) flow.Vec {
	var sum flow.Vec
	first := float64(side) * s.first
	for d, stride := range s.Stride {
		q := p + side*stride
		w, x := s.Primitive(q), &s.v[q]
		f, n := w.Convect(d, x), w.Conduct(d, x)
		for m := range sum {
			sum[m] += first*f[m] - s.second*n[m] - s.spread[d]*x[m]
		}
	}
	return sum
}

func (s *sweeper) lower(p int) {
	sum, v := s.coupled(p, -1), &s.v[p]
	for m := range v {
		v[m] -= relaxation * sum[m]
	}
	*v = s.divide(p, v)
}

func (s *sweeper) upper(p int) {
	sum, v := s.coupled(p, +1), &s.v[p]
	sum = s.divide(p, &sum)
	for m := range v {
		v[m] -= relaxation * sum[m]
	}
}

// divide returns the diagonal's block at p to the power of -1, times b. The block is a lower triangle.
func (s *sweeper) divide(p int, b *flow.Vec) flow.Vec {
	w := s.Primitive(p)
	x := flow.Vec{b[0] / s.whole}
	k, e := s.moments*w.R, s.energy*w.R
	last := b[4] + e*w.E*x[0]
	for a, v := range w.V {
		x[1+a] = (b[1+a] + k*v*x[0]) / (s.whole + k)
		last -= (k - e) * v * (x[1+a] - v*x[0])
	}
	x[4] = last / (s.whole + e)
	return x
}
