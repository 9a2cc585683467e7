package flow

import (
	"fmt"
	"math"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// drawState draws a state of a gas.
func drawState(t *rapid.T) Vec {
	var u Vec
	for m := range u {
		u[m] = rapid.Float64Range(-2, 2).Draw(t, "component")
	}
	u[0] = rapid.Float64Range(0.5, 3).Draw(t, "density")
	u[4] = 20 + u[4]
	return u
}

// The Jacobians are the derivatives of what they say, and both forms of each agree.
func TestJacobians(t *testing.T) {
	flux := func(u Vec, d int) Vec {
		w := PrimitiveOf(&u)
		f := u
		for m := range f {
			f[m] *= w.V[d]
		}
		f[1+d] += w.P
		f[4] += w.P * w.V[d]
		return f
	}
	conducted := func(u Vec, d int) Vec {
		w := PrimitiveOf(&u)
		f := Vec{4: (1-C15)*w.Q + w.V[d]*w.V[d]/6 + C15*w.E}
		for a, v := range w.V {
			f[1+a] = v
		}
		f[1+d] *= 4. / 3
		for m := range f {
			f[m] *= C34
		}
		return f
	}
	rapid.Check(t, func(t *rapid.T) {
		u, x, d := drawState(t), drawState(t), rapid.IntRange(0, 2).Draw(t, "direction")
		w := PrimitiveOf(&u)
		for name, p := range map[string]struct {
			f      func(Vec, int) Vec
			times  func(int, *Vec) Vec
			matrix func(int, *[5]Vec)
		}{"flux": {flux, w.Convect, w.Flows}, "conducted": {conducted, w.Conduct, w.Conducts}} {
			const h = 1e-5
			up, down := u, u
			for m := range u {
				up[m] += h * x[m]
				down[m] -= h * x[m]
			}
			above, below, got := p.f(up, d), p.f(down, d), p.times(d, &x)
			var j [5]Vec
			p.matrix(d, &j)
			for k := range got {
				want, product := (above[k]-below[k])/(2*h), 0.0
				for l := range x {
					product += j[k][l] * x[l]
				}
				if scale := 1e-4 * (10 + math.Abs(want)); math.Abs(got[k]-want) > scale || math.Abs(got[k]-product) > 1e-5*scale {
					t.Fatalf("%s along %d of %v: component %d of the product with %v is %v, by the matrix %v, by differences %v", name, d, u, k, x, got[k], product, want)
				}
			}
		}
	})
}

// The polynomial solves the forced equations, however the cube is cut.
func TestRates(t *testing.T) {
	for _, ranks := range []int{1, 3, 4, 6} {
		mpitest.Run(t, ranks, func(c *mpi.Comm) error {
			g, err := NewGrid(c, 9)
			if err != nil {
				return err
			}
			u, du := g.Array(), g.Array()
			g.own(func(p int, at [3]float64) { u[p] = exact(at) })
			h, err := g.Halo(u)
			if err == nil {
				err = h.Exchange()
			}
			if err != nil {
				return err
			}
			g.Rates(u, du)
			norms, err := g.Norms(du)
			for _, x := range norms {
				if !(x < 1e-13) {
					t.Errorf("%d ranks: the solution changes by %v", ranks, norms)
				}
			}
			return err
		})
	}
}

func TestTooManyRanks(t *testing.T) {
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		if _, err := NewGrid(c, 3); err == nil {
			return fmt.Errorf("4 ranks have less than 2 points each of 3")
		}
		return nil
	})
}
