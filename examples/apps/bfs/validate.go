package main

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/mpi"
)

// validate checks a tree of parents by the rules of the specification:
//
//  1. It is a tree: no vertex is its own ancestor, but the root is its own parent.
//  2. An edge of the tree leads from one level to the next.
//  3. An edge of the graph leads to the same level, or to one beside it.
//  4. The tree has all vertices of the root's component: no edge leads out of it.
//  5. An edge of the tree is one of the graph.
//
// wrong is what this rank has found. Levels are counted from the parents anew, so rule 2 holds of them by itself,
// and a vertex that is its own ancestor has none.
func (g *graph) validate(root int, parents []int) (r result, wrong, err error) {
	levels, deepest, err := g.levels(root, parents)
	if err != nil {
		return r, nil, err
	}
	for i, p := range parents {
		v := g.lo + i
		switch {
		case p < 0:
			continue
		case levels[i] < 0:
			wrong = fmt.Errorf("vertex %d has parent %d, but the root is not its ancestor", v, p)
		case (p == v) != (v == root):
			wrong = fmt.Errorf("vertex %d has parent %d, the root is %d", v, p, root)
		case p != v && !slices.Contains(g.at(v), p):
			wrong = fmt.Errorf("vertex %d has parent %d without an edge between them", v, p)
		}
		r.Reached++
		r.Edges += len(g.at(v))
	}
	across, err := g.edges(levels)
	if wrong == nil {
		wrong = across
	}
	if err != nil {
		return r, nil, err
	}
	sum := []int{r.Reached, r.Edges}
	if err := mpi.AllreduceInPlace(g.c, sum, mpi.Sum); err != nil {
		return r, nil, err
	}
	return result{sum[0], sum[1] / 2, deepest}, wrong, nil // each edge is there twice
}

// levels returns how far each vertex of this rank is from the root along the tree, -1 if it does not descend from it,
// and the number of levels.
func (g *graph) levels(root int, parents []int) ([]int, int, error) {
	send := make([][]half, g.c.Size()) // to the owner of a parent: the child
	for i, p := range parents {
		if v := g.lo + i; p >= 0 && v != root {
			send[g.owner(p)] = append(send[g.owner(p)], half{p, v})
		}
	}
	parts, err := mpi.AlltoallAlloc(g.c, send)
	if err != nil {
		return nil, 0, err
	}
	children := map[int][]int{}
	for _, part := range parts {
		for _, h := range part {
			children[h.At] = append(children[h.At], h.End)
		}
	}
	levels := slices.Repeat([]int{-1}, len(parents))
	var frontier []int
	if g.lo <= root && root < g.hi {
		frontier = []int{root}
	}
	for level := 0; ; level++ {
		left, err := mpi.AllreduceValue(g.c, len(frontier), mpi.Sum)
		if left == 0 || err != nil {
			return levels, level, err
		}
		tell := make([][]int, g.c.Size())
		for _, v := range frontier {
			levels[v-g.lo] = level
			for _, child := range children[v] {
				tell[g.owner(child)] = append(tell[g.owner(child)], child)
			}
		}
		told, err := mpi.AlltoallAlloc(g.c, tell)
		if err != nil {
			return nil, 0, err
		}
		frontier = slices.Concat(told...)
	}
}

// edges checks rules 3 and 4: each rank tells the levels of its vertices to those at the other ends of their edges, some vertices
// at a time.
func (g *graph) edges(levels []int) (wrong, err error) {
	const some = 1 << 14
	most, err := mpi.AllreduceValue(g.c, len(levels), mpi.Max)
	if err != nil {
		return nil, err
	}
	for from := 0; from < most; from += some {
		send := make([][]half, g.c.Size()) // a vertex, and the level at the other end of one of its edges
		for i := from; i < min(from+some, len(levels)); i++ {
			for _, w := range g.at(g.lo + i) {
				send[g.owner(w)] = append(send[g.owner(w)], half{w, levels[i]})
			}
		}
		parts, err := mpi.AlltoallAlloc(g.c, send)
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			for _, h := range part {
				mine := levels[h.At-g.lo]
				if (mine < 0) != (h.End < 0) || max(mine-h.End, h.End-mine) > 1 {
					wrong = fmt.Errorf("an edge leads from vertex %d on level %d to level %d", h.At, mine, h.End)
				}
			}
		}
	}
	return wrong, nil
}
