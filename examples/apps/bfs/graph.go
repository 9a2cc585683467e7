package main

import (
	"math/rand/v2"

	"github.com/gorun-mpi/gorun/examples/internal/app"
	"github.com/gorun-mpi/gorun/mpi"
)

// edgefactor is the number of edges for each vertex.
const edgefactor = 16

// graph is a rank's part of an undirected graph: its vertices, with all edges at them. An edge between vertices of
// two ranks is in both parts.
type graph struct {
	c      *mpi.Comm
	scale  int
	n      int // vertices of the whole
	lo, hi int // this rank's
	begin  []int
	ends   []int // the other ends of the edges at vertex v are ends[begin[v-lo]:begin[v-lo+1]]
}

func (g *graph) at(v int) []int { return g.ends[g.begin[v-g.lo]:g.begin[v-g.lo+1]] }

func (g *graph) owner(v int) int { return app.Owner(g.n, g.c.Size(), v) }

// half is an edge as seen from one of its ends.
type half struct{ At, End int }

// build makes the graph. Each rank makes an equal part of the edges and sends them to the owners of their ends. Edges
// of a vertex to itself are left out: no search uses them.
func build(c *mpi.Comm, scale int) (*graph, error) {
	g := &graph{c: c, scale: scale, n: 1 << scale}
	g.lo, g.hi = app.Range(g.n, c.Size(), c.Rank())
	first, last := app.Range(edgefactor*g.n, c.Size(), c.Rank())
	send := make([][]half, c.Size())
	for i := first; i < last; i++ {
		u, v := edge(scale, i)
		if u == v {
			continue
		}
		send[g.owner(u)] = append(send[g.owner(u)], half{u, v})
		send[g.owner(v)] = append(send[g.owner(v)], half{v, u})
	}
	parts, err := mpi.AlltoallAlloc(c, send)
	if err != nil {
		return nil, err
	}
	g.begin = make([]int, g.hi-g.lo+1)
	for _, part := range parts {
		for _, h := range part {
			g.begin[h.At-g.lo+1]++
		}
	}
	for i := range g.hi - g.lo {
		g.begin[i+1] += g.begin[i]
	}
	g.ends = make([]int, g.begin[g.hi-g.lo])
	fill := append([]int(nil), g.begin...)
	for _, part := range parts {
		for _, h := range part {
			g.ends[fill[h.At-g.lo]] = h.End
			fill[h.At-g.lo]++
		}
	}
	return g, nil
}

// edge makes the i-th edge: each bit of its ends is drawn with the probabilities .57, .19, .19 and .05 for 00, 01, 10
// and 11. It is the same on any rank.
func edge(scale, i int) (u, v int) {
	const ab, a, c = .57 + .19, .57 / (.57 + .19), .19 / (.19 + .05)
	r := rand.New(rand.NewPCG(uint64(i), 4))
	for bit := range scale {
		limit := a
		if r.Float64() > ab {
			u |= 1 << bit
			limit = c
		}
		if r.Float64() > limit {
			v |= 1 << bit
		}
	}
	return relabel(scale, u), relabel(scale, v)
}

// relabel is a permutation of the vertices, so that those with many edges are on all ranks. Each step of it can be
// undone: multiplication with an odd number, and the exclusive or of high bits into lower ones.
func relabel(scale, v int) int {
	x, mask := uint64(v), uint64(1)<<scale-1
	for range 3 {
		x = (x*0x9e3779b97f4a7c15 + 0x1234567) & mask
		x ^= x >> (uint(scale)/2 + 1)
	}
	return int(x)
}

// root returns the next vertex, in a random order, that has an edge. All ranks get the same.
func (g *graph) root(next *int) (int, error) {
	for {
		v := rand.New(rand.NewPCG(uint64(*next), 5)).IntN(g.n)
		*next++
		has := g.lo <= v && v < g.hi && len(g.at(v)) > 0
		if found, err := mpi.AllreduceValue(g.c, has, mpi.LOr); found || err != nil {
			return v, err
		}
	}
}
