package main

import (
	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/poisson"
	"github.com/gorun-mpi/gorun/mpi"
)

// box is a part of a cube of points: z, y and x, the last one running fastest.
type box struct {
	from, size [3]int
}

// partOf returns what this rank has of a cube of n points along each edge.
func partOf(t *mpi.Cart, n int) (box, error) {
	at, err := t.Coords(t.Rank())
	var b box
	for d, parts := range t.Dims() {
		b.size[d] = n / parts
		if err == nil {
			b.from[d] = at[d] * b.size[d]
		}
	}
	return b, err
}

// array makes room for the box with a layer of ghost cells around it.
func (b box) array() []float64 {
	return make([]float64, (b.size[0]+2)*(b.size[1]+2)*(b.size[2]+2))
}

// row returns a line of such an array, with its two ghost cells. Line 0 of each plane and plane 0 are ghosts.
func (b box) row(a []float64, z, y int) []float64 {
	n := b.size[2] + 2
	return a[(z*(b.size[1]+2)+y)*n:][:n]
}

// charges returns the right-hand side.
func (b box) charges(c *mpi.Comm, p poisson.Problem) ([]float64, error) {
	plus, minus, err := p.Charges(c, b.from, b.size)
	v := b.array()
	for _, at := range plus {
		b.set(v, p.N, at, +1)
	}
	for _, at := range minus {
		b.set(v, p.N, at, -1)
	}
	return v, err
}

// set sets a point of the cube if it is in the box.
func (b box) set(a []float64, n, at int, value float64) {
	z, y, x := at/n/n-b.from[0], at/n%n-b.from[1], at%n-b.from[2]
	if z >= 0 && z < b.size[0] && y >= 0 && y < b.size[1] && x >= 0 && x < b.size[2] {
		b.row(a, z+1, y+1)[x+1] = value
	}
}
