package main

import "math"

// vec is a place, a velocity or a force.
type vec struct{ X, Y, Z float64 }

func (a vec) add(b vec) vec             { return vec{a.X + b.X, a.Y + b.Y, a.Z + b.Z} }
func (a vec) sub(b vec) vec             { return vec{a.X - b.X, a.Y - b.Y, a.Z - b.Z} }
func (a vec) times(f float64) vec       { return vec{a.X * f, a.Y * f, a.Z * f} }
func (a vec) dot(b vec) float64         { return a.X*b.X + a.Y*b.Y + a.Z*b.Z }
func (a vec) cross(b vec) vec           { return vec{a.Y*b.Z - a.Z*b.Y, a.Z*b.X - a.X*b.Z, a.X*b.Y - a.Y*b.X} }
func triple(a, b, c vec) float64        { return a.dot(b.cross(c)) }
func (a vec) plus(f float64, b vec) vec { return vec{a.X + f*b.X, a.Y + f*b.Y, a.Z + f*b.Z} }

// hexahedron are the values at the nodes of an element: 0 to 3 around the lower face, 4 to 7 above them.
type hexahedron [8]vec

// corner returns 1 if node k of an element is at the upper end in direction d, else 0.
func corner(k, d int) int {
	return [3]int{(k ^ k>>1) & 1, k >> 1 & 1, k >> 2}[d]
}

// side is the same as a factor: 1 or -1.
var side = func() (s [3][8]float64) {
	for d := range s {
		for k := range s[d] {
			s[d][k] = float64(2*corner(k, d) - 1)
		}
	}
	return s
}()

// faces are the nodes of the six faces, around each so that the right hand's thumb points inwards.
var faces = [6][4]int{{0, 1, 2, 3}, {0, 4, 5, 1}, {1, 5, 6, 2}, {2, 6, 7, 3}, {3, 7, 4, 0}, {4, 7, 6, 5}}

func (m *mesh) hexahedron(v []vec, first int) (h hexahedron) {
	for k, at := range m.corners {
		h[k] = v[first+at]
	}
	return h
}

// along returns how the values change from one end to the other in direction d: the difference of the sums at both ends.
func (h *hexahedron) along(d int) (sum vec) {
	for k, v := range h {
		sum = sum.plus(side[d][k], v)
	}
	return sum
}

// volume is exact for faces that are bilinear (Grandy: Efficient Computation of Volume of Hexahedral Cells, 1997).
func (h *hexahedron) volume() float64 {
	from := func(a, b int) vec { return h[b].sub(h[a]) }
	return (triple(from(1, 3).add(from(2, 7)), from(3, 6), from(0, 2)) +
		triple(from(3, 4).add(from(7, 5)), from(4, 6), from(0, 7)) +
		triple(from(4, 1).add(from(5, 2)), from(1, 6), from(0, 5))) / 12
}

// volumeChange returns how the volume changes with the places of the nodes.
func (h *hexahedron) volumeChange() (by hexahedron) {
	near := [8][6]int{{1, 2, 3, 4, 5, 7}, {2, 3, 0, 5, 6, 4}, {3, 0, 1, 6, 7, 5}, {0, 1, 2, 7, 4, 6},
		{7, 6, 5, 0, 3, 1}, {4, 7, 6, 1, 0, 2}, {5, 4, 7, 2, 1, 3}, {6, 5, 4, 3, 2, 0}}
	for k, n := range near {
		both := func(a, b int) vec { return h[n[a]].add(h[n[b]]) }
		by[k] = both(1, 2).cross(both(0, 1)).add(both(0, 4).cross(both(3, 4))).add(both(3, 5).cross(both(2, 5))).times(1. / 12)
	}
	return by
}

// normals returns for each node the areas of its three faces, each to a quarter, as a vector inwards.
func (h *hexahedron) normals() (n hexahedron) {
	for _, f := range faces {
		a, b, c, d := h[f[0]], h[f[1]], h[f[2]], h[f[3]]
		area := d.add(c).sub(b).sub(a).cross(c.add(b).sub(d).sub(a)).times(1. / 16)
		for _, k := range f {
			n[k] = n[k].add(area)
		}
	}
	return n
}

// extent returns the volume by the largest face.
func (h *hexahedron) extent(volume float64) float64 {
	largest := 0.0
	for _, f := range faces {
		p, q := h[f[2]].sub(h[f[0]]), h[f[3]].sub(h[f[1]])
		u, v := p.sub(q), p.add(q)
		largest = max(largest, u.dot(u)*v.dot(v)-u.dot(v)*u.dot(v))
	}
	return 4 * volume / math.Sqrt(largest)
}

// divergence returns how fast the volume grows, by the volume, if the nodes have these velocities.
func (h *hexahedron) divergence(velocity *hexahedron) (rate float64) {
	x, y, z := h.along(0).times(.125), h.along(1).times(.125), h.along(2).times(.125)
	a, b, c := y.cross(z), z.cross(x), x.cross(y)
	for k, v := range velocity {
		rate += side[0][k]*a.dot(v) + side[1][k]*b.dot(v) + side[2][k]*c.dot(v)
	}
	return rate / (8 * y.dot(b))
}
