package main

import (
	"maps"
	"slices"

	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

// part is a rank's vertices with their rows of the matrix. Columns count the rank's own vertices first, then those of
// neighbours that it needs, by number and so by rank.
type part struct {
	graph  *mpi.Graph
	peers  []int
	place  []point
	border []bool
	rows   [][]entry

	out              []int     // which of the own vertices neighbours need, neighbour by neighbour
	scounts, rcounts []int     // how many are sent to each, and received
	sent             []float64 // their values
	values           []float64 // of own vertices, and of those received
}

type entry struct {
	col   int
	value float64
}

func newPart(c *mpi.Comm, n int) (*part, error) {
	t := newTriangulation(n)
	lo, hi := app.Range(n*n, c.Size(), c.Rank())
	m := &part{place: make([]point, hi-lo), border: make([]bool, hi-lo)}
	rows := assemble(t, lo, hi, m)
	need, give := map[int]bool{}, map[int]map[int]bool{} // numbers of others' vertices; of own ones, by neighbour
	for i, row := range rows {
		for k := range row {
			if lo <= k && k < hi {
				continue
			}
			need[k] = true
			peer := app.Owner(n*n, c.Size(), k)
			if give[peer] == nil {
				give[peer] = map[int]bool{}
			}
			give[peer][i] = true // the matrix is symmetric: its row of k has a column for this vertex
		}
	}
	ghosts := slices.Sorted(maps.Keys(need))
	m.peers = slices.Sorted(maps.Keys(give))
	m.scounts, m.rcounts = make([]int, len(m.peers)), make([]int, len(m.peers))
	column := make(map[int]int, len(ghosts))
	for i, k := range ghosts {
		column[k] = hi - lo + i
		at, _ := slices.BinarySearch(m.peers, app.Owner(n*n, c.Size(), k))
		m.rcounts[at]++
	}
	for at, peer := range m.peers {
		m.out = append(m.out, slices.Sorted(maps.Keys(give[peer]))...)
		m.scounts[at] = len(give[peer])
	}
	for _, row := range rows {
		var entries []entry
		for _, k := range slices.Sorted(maps.Keys(row)) {
			col, other := column[k]
			if !other {
				col = k - lo
			}
			entries = append(entries, entry{col, row[k]})
		}
		m.rows = append(m.rows, entries)
	}
	m.sent, m.values = make([]float64, len(m.out)), make([]float64, hi-lo+len(ghosts))
	var err error
	m.graph, err = c.DistGraph(m.peers, m.peers, nil)
	return m, err
}

// assemble adds the matrices of all triangles at the vertices from lo to hi, and fills in where those are.
func assemble(t *triangulation, lo, hi int, m *part) []map[int]float64 {
	rows := make([]map[int]float64, hi-lo)
	for i := range rows {
		rows[i] = map[int]float64{}
	}
	for i := range t.n - 1 {
		for j := range t.n - 1 {
			if !t.near(i, j, lo, hi) {
				continue
			}
			for _, triangle := range t.cell(i, j) {
				var p [3]point
				for k, v := range triangle {
					p[k] = t.place(v[0], v[1])
				}
				s := stiffness(p)
				for k, v := range triangle {
					own := t.number[v[0]*t.n+v[1]] - lo
					if own < 0 || own >= hi-lo {
						continue
					}
					m.place[own], m.border[own] = p[k], t.border(v[0], v[1])
					for l, w := range triangle {
						rows[own][t.number[w[0]*t.n+w[1]]] += s[k][l]
					}
				}
			}
		}
	}
	return rows
}

// near reports whether a corner of a cell is one of the vertices from lo to hi.
func (t *triangulation) near(i, j, lo, hi int) bool {
	for _, k := range [4]int{i*t.n + j, i*t.n + j + 1, (i+1)*t.n + j, (i+1)*t.n + j + 1} {
		if lo <= t.number[k] && t.number[k] < hi {
			return true
		}
	}
	return false
}

// multiply sets y to the matrix times x inside, and to 0 on the border, where nothing is unknown.
func (m *part) multiply(x, y []float64) error {
	for i, k := range m.out {
		m.sent[i] = x[k]
	}
	copy(m.values, x)
	if err := mpi.NeighborAlltoallv(m.graph, m.sent, m.scounts, nil, m.values[len(x):], m.rcounts, nil); err != nil {
		return err
	}
	for i, row := range m.rows {
		y[i] = 0
		if m.border[i] {
			continue
		}
		for _, e := range row {
			y[i] += e.value * m.values[e.col]
		}
	}
	return nil
}

// dot is the product of two vectors of all ranks.
func (m *part) dot(x, y []float64) (float64, error) {
	sum := 0.0
	for i, v := range x {
		sum += v * y[i]
	}
	return mpi.AllreduceValue(m.graph.Comm, sum, mpi.Sum)
}
