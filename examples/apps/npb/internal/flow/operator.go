package flow

// force makes the polynomial a solution: the forcing is what the equations leave of it.
func (g *Grid) force() error {
	g.forcing, g.primitives = g.Array(), make([]Primitive, len(g.Array()))
	u := g.Array()
	g.own(func(p int, at [3]float64) { u[p] = exact(at) })
	h, err := g.Halo(u)
	if err != nil {
		return err
	}
	if err := h.Exchange(); err != nil {
		return err
	}
	f := g.Array()
	g.Rates(u, f)
	for p := range f {
		for m := range f[p] {
			g.forcing[p][m] = -f[p][m]
		}
	}
	return nil
}

// Rates sets du to the rates of change of u at the points inside the cube. The ghost cells of u are filled. It
// leaves what follows from u for Primitive.
func (g *Grid) Rates(u, du []Vec) {
	g.derive(u)
	var s [3]scheme
	for d := range s {
		s[d] = g.scheme(d)
	}
	for z := g.Low[2]; z < g.High[2]; z++ {
		for y := g.Low[1]; y < g.High[1]; y++ {
			weights := [3]*[5]float64{1: &g.weights[g.From[1]+y], 2: &g.weights[g.From[2]+z]}
			for x := g.Low[0]; x < g.High[0]; x++ {
				weights[0] = &g.weights[g.From[0]+x]
				p := g.At(x, y, z)
				du[p] = g.forcing[p]
				for d := range s {
					s[d].flow(&du[p], u, g.primitives, p)
					s[d].damp(&du[p], u, p, weights[d])
				}
			}
		}
	}
}

// derive computes what follows from u, with one layer of ghost cells where there are neighbours.
func (g *Grid) derive(u []Vec) {
	for z := -1; z <= g.Size[2]; z++ {
		for y := -1; y <= g.Size[1]; y++ {
			first := g.At(0, y, z)
			if u[first][0] == 0 { // beyond the cube, or in a corner of the frame
				continue
			}
			for p := first; p < first+g.Size[0]; p++ {
				g.primitives[p] = PrimitiveOf(&u[p])
			}
		}
	}
}

// Primitive returns what follows from the state at p, as it was in the last call of Rates.
func (g *Grid) Primitive(p int) *Primitive { return &g.primitives[p] }

// scheme has the factors of the differences along one direction.
type scheme struct {
	d, stride                 int
	first, second             float64 // central differences of fluxes, artificial diffusion
	viscous                   float64
	kinetic, normal, internal float64 // parts of the energy that are conducted
	fourth                    float64
}

func (g *Grid) scheme(d int) scheme {
	t := 1 / (g.H * g.H)
	v := C34 * t
	return scheme{d: d, stride: g.Stride[d], first: 1 / (2 * g.H), second: Diffusion[d] * t, viscous: v,
		kinetic: v * (1 - C15), normal: v / 6, internal: v * C15, fourth: Dissipation}
}

// flow adds the fluxes and the viscous terms of one direction.
func (s *scheme) flow(to *Vec, u []Vec, w []Primitive, p int) {
	a, b, c := &u[p-s.stride], &u[p], &u[p+s.stride]
	wa, wb, wc := &w[p-s.stride], &w[p], &w[p+s.stride]
	na, nb, nc := wa.V[s.d], wb.V[s.d], wc.V[s.d]
	for m := range to {
		to[m] += s.second * (c[m] - 2*b[m] + a[m])
	}
	to[0] -= s.first * (c[1+s.d] - a[1+s.d])
	for m := range 3 {
		to[1+m] += s.viscous*(wc.V[m]-2*wb.V[m]+wa.V[m]) - s.first*(c[1+m]*nc-a[1+m]*na)
	}
	to[1+s.d] += s.viscous/3*(nc-2*nb+na) - s.first*(wc.P-wa.P)
	to[4] += s.kinetic*(wc.Q-2*wb.Q+wa.Q) + s.normal*(nc*nc-2*nb*nb+na*na) + s.internal*(wc.E-2*wb.E+wa.E) -
		s.first*((c[4]+wc.P)*nc-(a[4]+wa.P)*na)
}

// damp takes off the fourth differences of one direction.
func (s *scheme) damp(to *Vec, u []Vec, p int, w *[5]float64) {
	aa, a, b, c, cc := &u[p-2*s.stride], &u[p-s.stride], &u[p], &u[p+s.stride], &u[p+2*s.stride]
	for m := range to {
		to[m] -= s.fourth * (w[0]*aa[m] + w[1]*a[m] + w[2]*b[m] + w[3]*c[m] + w[4]*cc[m])
	}
}

// FourthDifferences returns the weights of the two points on each side of each of n, and of itself. Near the ends,
// where the fourth difference would reach beyond the face or take the face for an inner point, they are one-sided.
func FourthDifferences(n int) [][5]float64 {
	w := make([][5]float64, n)
	for i := range w {
		w[i] = [5]float64{1, -4, 6, -4, 1}
	}
	w[1], w[2] = [5]float64{0, 0, 5, -4, 1}, [5]float64{0, -4, 6, -4, 1}
	w[n-3], w[n-2] = [5]float64{1, -4, 6, -4, 0}, [5]float64{1, -4, 5, 0, 0}
	return w
}
