package main

import (
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
	"github.com/gorun-mpi/gorun/mpi"
)

// level is what a rank has of one grid: the solution or its correction u, and the residual r.
type level struct {
	box
	u, r           []float64
	aroundU        border
	aroundR        border
	sides, corners []float64 // sums over the neighbours of each point of a line in its plane across
}

// border fills the ghost cells of an array.
type border func() error

func newLevel(b box, u []float64) *level {
	n := b.size[2] + 2
	return &level{box: b, u: u, r: b.array(), sides: make([]float64, n), corners: make([]float64, n)}
}

// between has the ghost cells filled by the neighbours of a grid of ranks.
func (l *level) between(t *mpi.Cart, loop *nas.Loop) error {
	dims := []int{l.size[0] + 2, l.size[1] + 2, l.size[2] + 2}
	u, err := mpi.NewHalo(t, l.u, dims, 1, true)
	if err != nil {
		return err
	}
	r, err := mpi.NewHalo(t, l.r, dims, 1, true)
	if err != nil {
		return err
	}
	l.aroundU = func() error { return loop.Outside(u.Exchange) }
	l.aroundR = func() error { return loop.Outside(r.Exchange) }
	return nil
}

// across sets sides and corners to the sums of the 4 nearest and the 4 diagonal neighbours of each point of a line,
// in the plane across the line.
func (l *level) across(a []float64, z, y int) (sides, corners []float64) {
	n, s, d, up := l.row(a, z, y-1), l.row(a, z, y+1), l.row(a, z-1, y), l.row(a, z+1, y)
	nd, sd, nu, su := l.row(a, z-1, y-1), l.row(a, z-1, y+1), l.row(a, z+1, y-1), l.row(a, z+1, y+1)
	sides, corners = l.sides[:len(n)], l.corners[:len(n)]
	s, d, up, nd, sd, nu, su = s[:len(n)], d[:len(n)], up[:len(n)], nd[:len(n)], sd[:len(n)], nu[:len(n)], su[:len(n)]
	for x := range sides {
		sides[x] = n[x] + s[x] + d[x] + up[x]
		corners[x] = nd[x] + sd[x] + nu[x] + su[x]
	}
	return sides, corners
}

// residual sets r to v - A u. v may be r.
func (l *level) residual(v []float64) error {
	const self, edge, corner = -8. / 3, 1. / 6, 1. / 12 // the 6 nearest points have no weight
	for z := 1; z <= l.size[0]; z++ {
		for y := 1; y <= l.size[1]; y++ {
			sides, corners := l.across(l.u, z, y)
			u, v, r := l.row(l.u, z, y), l.row(v, z, y), l.row(l.r, z, y)
			u, v, r = u[:len(sides)], v[:len(sides)], r[:len(sides)]
			for x := 1; x < len(sides)-1; x++ {
				r[x] = v[x] - self*u[x] - edge*(corners[x]+sides[x-1]+sides[x+1]) - corner*(corners[x-1]+corners[x+1])
			}
		}
	}
	return l.aroundR()
}

// smooth adds to u what r weighs.
func (l *level) smooth(w [3]float64) error {
	for z := 1; z <= l.size[0]; z++ {
		for y := 1; y <= l.size[1]; y++ {
			sides, corners := l.across(l.r, z, y)
			u, r := l.row(l.u, z, y)[:len(sides)], l.row(l.r, z, y)[:len(sides)]
			for x := 1; x < len(sides)-1; x++ {
				u[x] += w[0]*r[x] + w[1]*(r[x-1]+r[x+1]+sides[x]) + w[2]*(corners[x]+sides[x-1]+sides[x+1])
			}
		}
	}
	return l.aroundU()
}

// restrict sets the residual of the next coarser grid, whose point i lies on 2i of this one (2i+1 if both are counted
// from 0 without the ghosts).
func (l *level) restrict(coarse *level) error {
	for z := 1; z <= coarse.size[0]; z++ {
		for y := 1; y <= coarse.size[1]; y++ {
			sides, corners := l.across(l.r, 2*z, 2*y)
			r, to := l.row(l.r, 2*z, 2*y), coarse.row(coarse.r, z, y)
			for x := 1; x < len(to)-1; x++ {
				i := 2 * x
				to[x] = 0.5*r[i] + 0.25*(r[i-1]+r[i+1]+sides[i]) + 0.125*(sides[i-1]+sides[i+1]+corners[i]) + 0.0625*(corners[i-1]+corners[i+1])
			}
		}
	}
	return coarse.aroundR()
}

// prolong adds to u what the next coarser grid has between and on its points, in the ghosts, too.
func (l *level) prolong(coarse *level) {
	n := coarse.size[2] + 2
	mean := make([]float64, n)
	for z := range l.size[0] + 2 {
		for y := range l.size[1] + 2 {
			a, b := coarse.row(coarse.u, z/2, y/2), coarse.row(coarse.u, z/2, (y+1)/2)
			c, d := coarse.row(coarse.u, (z+1)/2, y/2), coarse.row(coarse.u, (z+1)/2, (y+1)/2)
			for x := range mean {
				mean[x] = 0.25 * (a[x] + b[x] + c[x] + d[x])
			}
			u := l.row(l.u, z, y)
			for x := range n - 1 {
				u[2*x] += mean[x]
				u[2*x+1] += 0.5 * (mean[x] + mean[x+1])
			}
		}
	}
}

// squares returns the sum of the squares of the residual.
func (l *level) squares() float64 {
	sum := 0.0
	for z := 1; z <= l.size[0]; z++ {
		for y := 1; y <= l.size[1]; y++ {
			for _, v := range l.row(l.r, z, y)[1 : l.size[2]+1] {
				sum += v * v
			}
		}
	}
	return sum
}
