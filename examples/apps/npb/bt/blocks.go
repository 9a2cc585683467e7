package main

import (
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/adi"
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/flow"
)

// block is a 5x5 matrix.
type block [5]flow.Vec

// blocks solves lines by Thomas's algorithm with blocks. Blocks are not pivoted.
type blocks struct {
	n             int
	first, second float64 // factors of the Jacobians of what flows and of what is conducted
	flows         []block // both Jacobians at each point
	conducts      []block
	c             []block // what a point's neighbour above has to do with it
}

func newBlocks(n int, dt float64) adi.Method {
	h := 1 / float64(n-1)
	return &blocks{n: n, first: dt / (2 * h), second: dt / (h * h), flows: make([]block, n), conducts: make([]block, n), c: make([]block, n)}
}

func (b *blocks) Prepare(*flow.Primitive, *flow.Vec)                {}
func (b *blocks) Finish(int, *flow.Primitive, *flow.Vec, *flow.Vec) {}

// Line solves A x(i-1) + B x(i) + C x(i+1) = r(i).
func (b *blocks) Line(d int, u, r []flow.Vec, stride int) {
	for i := range b.n {
		w := flow.PrimitiveOf(&u[i*stride])
		w.Flows(d, (*[5]flow.Vec)(&b.flows[i]))
		w.Conducts(d, (*[5]flow.Vec)(&b.conducts[i]))
	}
	b.c[0] = block{}
	spread := b.second * flow.Diffusion[d]
	for i := 1; i < b.n-1; i++ {
		var low, mid block
		high := &b.c[i]
		for k := range mid {
			for l := range mid[k] {
				low[k][l] = -b.first*b.flows[i-1][k][l] - b.second*b.conducts[i-1][k][l]
				mid[k][l] = 2 * b.second * b.conducts[i][k][l]
				high[k][l] = b.first*b.flows[i+1][k][l] - b.second*b.conducts[i+1][k][l]
			}
			low[k][k] -= spread
			mid[k][k] += 1 + 2*spread
			high[k][k] -= spread
		}
		if i > 1 {
			low.take(&r[(i-1)*stride], &r[i*stride])
			mid.takeProduct(&low, &b.c[i-1])
		}
		mid.divide(high, &r[i*stride])
	}
	for i := b.n - 3; i > 0; i-- {
		b.c[i].take(&r[(i+1)*stride], &r[i*stride])
	}
}

// take subtracts the product of m and x from y.
func (m *block) take(x, y *flow.Vec) {
	for k := range m {
		row := &m[k]
		y[k] -= row[0]*x[0] + row[1]*x[1] + row[2]*x[2] + row[3]*x[3] + row[4]*x[4]
	}
}

// takeProduct subtracts the product of a and b from m.
func (m *block) takeProduct(a, b *block) {
	for k := range m {
		x, y := &a[k], &m[k]
		for l := range y {
			y[l] -= x[0]*b[0][l] + x[1]*b[1][l] + x[2]*b[2][l] + x[3]*b[3][l] + x[4]*b[4][l]
		}
	}
}

// divide multiplies c and r with the inverse of m, which is lost.
func (m *block) divide(c *block, r *flow.Vec) {
	for p := range m {
		pivot := 1 / m[p][p]
		for l := p + 1; l < 5; l++ {
			m[p][l] *= pivot
		}
		for l := range c[p] {
			c[p][l] *= pivot
		}
		r[p] *= pivot
		for k := range m {
			if k == p {
				continue
			}
			f := m[k][p]
			for l := p + 1; l < 5; l++ {
				m[k][l] -= f * m[p][l]
			}
			for l := range c[k] {
				c[k][l] -= f * c[p][l]
			}
			r[k] -= f * r[p]
		}
	}
}
