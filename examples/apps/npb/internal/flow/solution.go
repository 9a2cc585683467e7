// Package flow has what the NAS benchmarks LU, BT and SP share: the compressible Navier-Stokes equations on a cube,
// their discretisation and its Jacobians, and how the cube is cut among ranks (RNR-94-007, section 3).
//
// The equations are forced so that a given polynomial solves them. All three benchmarks begin with an interpolation of
// its values at the faces, and differ in how they approach it.
package flow

import (
	"math"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
)

// Vec is the state at a point: density, momenta along x, y and z, and energy.
type Vec [5]float64

// What the gas is like, in the report's words c1 to c5. Products of these are as they are used.
const (
	C1  = 1.4
	C2  = 0.4
	C34 = 0.1 // c3 c4
	C15 = C1 * 1.4
)

// Diffusion is the artificial diffusion along x, y and z; a quarter of the largest is that of fourth order.
var Diffusion = [3]float64{0.75, 0.75, 1}

// Dissipation is the weight of the fourth differences.
const Dissipation = 0.25

// coefficients of the polynomial: the constant, then x, y, z, and their squares, cubes and fourth powers.
var coefficients = [5][13]float64{
	{2, 0, 0, 4, 5, 3, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3},
	{1, 0, 0, 0, 1, 2, 3, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5},
	{2, 2, 0, 0, 0, 2, 3, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4},
	{2, 2, 0, 0, 0, 2, 3, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3},
	{5, 4, 3, 2, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2},
}

// exact returns the solution at a point of the unit cube.
func exact(at [3]float64) Vec {
	var u Vec
	for m, c := range coefficients {
		u[m] = c[0]
		for d, x := range at {
			u[m] += x * (c[1+d] + x*(c[4+d]+x*(c[7+d]+x*c[10+d])))
		}
	}
	return u
}

// interpolated blends the exact values at the six faces.
func interpolated(at [3]float64) Vec {
	var p [3]Vec
	for d, x := range at {
		low, high := at, at
		low[d], high[d] = 0, 1
		l, h := exact(low), exact(high)
		for m := range l {
			p[d][m] = x*h[m] + (1-x)*l[m]
		}
	}
	var u Vec
	for m := range u {
		a, b, c := p[0][m], p[1][m], p[2][m]
		u[m] = a + b + c - a*b - a*c - b*c + a*b*c
	}
	return u
}

// Primitive are quantities that follow from a Vec.
type Primitive struct {
	R float64    // 1/density
	V [3]float64 // velocity
	Q float64    // half its square
	E float64    // energy/density
	P float64    // pressure
}

// PrimitiveOf returns those of u.
func PrimitiveOf(u *Vec) Primitive {
	r := 1 / u[0]
	w := Primitive{R: r, V: [3]float64{u[1] * r, u[2] * r, u[3] * r}, E: u[4] * r}
	w.Q = 0.5 * (w.V[0]*w.V[0] + w.V[1]*w.V[1] + w.V[2]*w.V[2])
	w.P = C2 * (u[4] - w.Q*u[0])
	return w
}

// Sound returns the speed of sound.
func (w *Primitive) Sound() float64 { return math.Sqrt(C1 * w.P * w.R) }

// Components are their names in reports.
var Components = [5]string{"density", "momentum x", "momentum y", "momentum z", "energy"}

// Checks compares the components of a norm with the published ones.
func Checks(what string, got, want Vec) []nas.Check {
	var k []nas.Check
	for m, name := range Components {
		k = append(k, nas.Check{What: what + " " + name, Got: got[m], Want: want[m], Tolerance: 1e-8})
	}
	return k
}
