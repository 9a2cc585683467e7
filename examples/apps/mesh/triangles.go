package main

import (
	"math/rand/v2"
	"slices"
)

type point struct{ X, Y float64 }

// triangulation is a mesh of the unit square with n x n vertices. They are moved at random, but for those of the
// border along it, and each of the quadrangles between is cut along one of its diagonals, at random.
type triangulation struct {
	n      int
	number []int // of the vertex at (i, j): its place along the curve
}

func newTriangulation(n int) *triangulation {
	t := &triangulation{n: n, number: make([]int, n*n)}
	along := make([]int, n*n)
	for k := range along {
		along[k] = k
	}
	slices.SortFunc(along, func(a, b int) int { return morton(a/n, a%n) - morton(b/n, b%n) })
	for number, k := range along {
		t.number[k] = number
	}
	return t
}

// morton returns how far a place is along the curve of Morton: the bits of i and j in turn.
func morton(i, j int) (m int) {
	for bit := range 16 {
		m |= (i>>bit&1)<<(2*bit+1) | (j>>bit&1)<<(2*bit)
	}
	return m
}

func (t *triangulation) border(i, j int) bool {
	return i == 0 || j == 0 || i == t.n-1 || j == t.n-1
}

// place returns where a vertex is.
func (t *triangulation) place(i, j int) point {
	r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
	h := 1 / float64(t.n-1)
	p := point{float64(i) * h, float64(j) * h}
	if !t.border(i, j) {
		p.X, p.Y = p.X+.4*h*(r.Float64()-.5), p.Y+.4*h*(r.Float64()-.5)
	}
	return p
}

// cell returns the two triangles between (i, j) and (i+1, j+1), as vertices.
func (t *triangulation) cell(i, j int) [2][3][2]int {
	a, b, c, d := [2]int{i, j}, [2]int{i + 1, j}, [2]int{i + 1, j + 1}, [2]int{i, j + 1}
	if rand.New(rand.NewPCG(uint64(i), ^uint64(j))).IntN(2) == 0 {
		return [2][3][2]int{{a, b, c}, {a, c, d}}
	}
	return [2][3][2]int{{a, b, d}, {b, c, d}}
}

// stiffness is the matrix of a triangle for Laplace's equation: the product of the gradients of the linear functions
// that are 1 at one corner and 0 at the others, times the area.
func stiffness(p [3]point) (m [3][3]float64) {
	var grad [3]point
	twice := (p[1].X-p[0].X)*(p[2].Y-p[0].Y) - (p[2].X-p[0].X)*(p[1].Y-p[0].Y)
	for i := range grad {
		a, b := p[(i+1)%3], p[(i+2)%3]
		grad[i] = point{(a.Y - b.Y) / twice, (b.X - a.X) / twice}
	}
	for i, g := range grad {
		for j, h := range grad {
			m[i][j] = twice / 2 * (g.X*h.X + g.Y*h.Y)
		}
	}
	return m
}
