package main

import (
	"cmp"
	"slices"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
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

// charge is a point and the random number there.
type charge struct {
	V  float64
	At int64
}

// charges returns the right-hand side: of random numbers on all points, 1 where the ten largest are, -1 where the ten
// smallest are, and 0 elsewhere.
func charges(c *mpi.Comm, b box, n int) ([]float64, error) {
	const many = 10
	var low, high []charge
	for z := range b.size[0] {
		for y := range b.size[1] {
			at := ((b.from[0]+z)*n+b.from[1]+y)*n + b.from[2]
			r := nas.Seed.After(at)
			for x := range b.size[2] {
				q := charge{r.Next(), int64(at + x)}
				low = keep(low, q, many, -1)
				high = keep(high, q, many, +1)
			}
		}
	}
	v := b.array()
	for _, s := range []struct {
		own  []charge
		sign int
	}{{low, -1}, {high, +1}} {
		all, _, err := mpi.AllgatherAlloc(c, s.own)
		if err != nil {
			return nil, err
		}
		var kept []charge
		for _, q := range all {
			kept = keep(kept, q, many, s.sign)
		}
		for _, q := range kept {
			b.set(v, n, int(q.At), float64(s.sign))
		}
	}
	return v, nil
}

// keep adds q to the many largest (sign +1) or smallest (-1) numbers, in order.
func keep(best []charge, q charge, many, sign int) []charge {
	order := func(a, b charge) int { return -sign * cmp.Compare(a.V, b.V) }
	if len(best) == many {
		if order(q, best[many-1]) >= 0 {
			return best
		}
		best = best[:many-1]
	}
	at, _ := slices.BinarySearchFunc(best, q, order)
	return slices.Insert(best, at, q)
}

// set sets a point of the cube if it is in the box.
func (b box) set(a []float64, n, at int, value float64) {
	z, y, x := at/n/n-b.from[0], at/n%n-b.from[1], at%n-b.from[2]
	if z >= 0 && z < b.size[0] && y >= 0 && y < b.size[1] && x >= 0 && x < b.size[2] {
		b.row(a, z+1, y+1)[x+1] = value
	}
}
