package main

import (
	"math"
	"slices"

	"github.com/gorun-mpi/gorun/examples/apps/npb/internal/nas"
)

// span is a range of rows or columns.
type span struct{ begin, end int }

func (s span) has(i int) bool { return s.begin <= i && i < s.end }

// matrix is a block in compressed rows.
type matrix struct {
	start  []int32 // of each row, and where the last one ends
	col    []int32 // within the block
	values []float64
}

// sparse is a random vector.
type sparse struct {
	at []int
	v  []float64
}

// newMatrix makes a block of the matrix: the sum of the outer products of n random vectors, with weights that fall from
// 1 to 1/10, and a diagonal.
func newMatrix(p problem, rows, cols span) *matrix {
	const condition = 0.1
	r := nas.Seed.After(1)
	parts := make([][]element, max(rows.end-rows.begin, 0)) // of each row
	weight, ratio := 1.0, math.Pow(condition, 1/float64(p.n))
	for i := range p.n {
		x := randomVector(&r, p, i)
		for j, col := range x.at {
			if !cols.has(col) {
				continue
			}
			for k, row := range x.at {
				if rows.has(row) {
					parts[row-rows.begin] = append(parts[row-rows.begin], element{int32(col - cols.begin), x.v[k] * (weight * x.v[j])})
				}
			}
		}
		if rows.has(i) && cols.has(i) {
			parts[i-rows.begin] = append(parts[i-rows.begin], element{int32(i - cols.begin), condition - p.shift})
		}
		weight *= ratio
	}
	return compress(parts)
}

type element struct {
	col int32
	v   float64
}

// randomVector draws the places and values of a vector. The i-th element of the i-th vector is 1/2.
func randomVector(r *nas.Random, p problem, i int) sparse {
	places := 1
	for places < p.n {
		places *= 2
	}
	var x sparse
	for len(x.at) < p.nonzero {
		v := r.Next()
		at := int(float64(places) * r.Next())
		if at < p.n && !slices.Contains(x.at, at) {
			x.at, x.v = append(x.at, at), append(x.v, v)
		}
	}
	if k := slices.Index(x.at, i); k >= 0 {
		x.v[k] = 0.5
	} else {
		x.at, x.v = append(x.at, i), append(x.v, 0.5)
	}
	return x
}

// compress adds what lies in one place.
func compress(rows [][]element) *matrix {
	m := &matrix{start: make([]int32, 1, len(rows)+1)}
	for _, row := range rows {
		slices.SortStableFunc(row, func(a, b element) int { return int(a.col - b.col) })
		for i, e := range row {
			if i > 0 && e.col == row[i-1].col {
				m.values[len(m.values)-1] += e.v
				continue
			}
			m.col, m.values = append(m.col, e.col), append(m.values, e.v)
		}
		m.start = append(m.start, int32(len(m.col)))
	}
	return m
}

// times sets y to the product of the block and x.
func (m *matrix) times(x, y []float64) {
	for i := range y {
		y[i] = 0
	}
	for i := range len(m.start) - 1 {
		col := m.col[m.start[i]:m.start[i+1]]
		values := m.values[m.start[i]:m.start[i+1]]
		sum := 0.0
		for k, v := range values[:len(col)] {
			sum += v * x[col[k]]
		}
		y[i] = sum
	}
}
