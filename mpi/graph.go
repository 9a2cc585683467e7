package mpi

import (
	"context"
	"fmt"
	"slices"
)

// Graph is a communicator whose ranks are the nodes of a directed graph. Each knows its own edges only. (MPI-4.1,
// chapter 8.5.4)
type Graph struct {
	*Comm
	hood    neighbourhood
	weights *Weights
}

// Weights say how heavy the edges of a rank are, in the order of its sources and its destinations. The library does
// not use them. (MPI-4.1, chapter 8.5.4)
type Weights struct{ Sources, Dests []int }

// DistGraph makes a graph of the ranks of c. sources are the ranks from which an edge comes to this one, dests those
// to which one goes. A rank may stand in a list several times. w may be nil. All ranks of c call it, and each edge is
// told by both its ends. Errors: ErrRank; ErrCount if there are more or fewer weights than edges; ErrMismatch on all
// ranks if only one end has told an edge; as Allgather. (MPI-4.1, chapter 8.5.4, MPI_Dist_graph_create_adjacent)
func (c *Comm) DistGraph(sources, dests []int, w *Weights) (*Graph, error) {
	if err := c.joins(); err != nil {
		return nil, c.fail("DistGraph", err)
	}
	if c.inter != nil {
		return nil, c.fail("DistGraph", errInter)
	}
	var wrong error
	for _, r := range slices.Concat(sources, dests) {
		if uint(r) >= uint(c.size) {
			wrong = fmt.Errorf("%w: %d", ErrRank, r)
		}
	}
	if w != nil && (len(w.Sources) != len(sources) || len(w.Dests) != len(dests)) {
		wrong = first(wrong, fmt.Errorf("%w: %d and %d weights for %d sources and %d destinations", ErrCount, len(w.Sources), len(w.Dests), len(sources), len(dests)))
	}
	d, err := c.split(kindGraph, choice{Key: int64(c.rank), Agreed: agreed("graph")}, wrong)
	if err != nil {
		return nil, err
	}
	if err := d.sameEdges(sources, dests); err != nil {
		_ = d.Free()
		return nil, err
	}
	if w != nil {
		w = &Weights{slices.Clone(w.Sources), slices.Clone(w.Dests)}
	}
	return &Graph{d, neighbourhood{c: d, sources: slices.Clone(sources), dests: slices.Clone(dests)}, w}, nil
}

// sameEdges returns an error on all ranks if the two ends of an edge have not told it alike.
func (c *Comm) sameEdges(sources, dests []int) error {
	told, heard := make([]int, c.size), make([]int, c.size)
	for _, r := range dests {
		told[r]++
	}
	if err := Alltoall(c, told, heard); err != nil {
		return err
	}
	for _, r := range sources {
		heard[r]--
	}
	bad := -1
	for r, n := range heard {
		if n != 0 {
			bad = r
		}
	}
	where, err := AllreduceValue(c, ValueLoc[int]{bad, c.rank}, MaxLoc)
	if err == nil && where.Value >= 0 {
		err = c.fail("DistGraph", fmt.Errorf("%w: only one of ranks %d and %d has told an edge between them", ErrMismatch, where.Value, where.Loc))
	}
	return err
}

// Neighbors returns the edges of the calling rank, as it has told them. w is nil if it has told no weights. All
// slices are the caller's. (MPI-4.1, chapter 8.5.5, MPI_Dist_graph_neighbors)
func (g *Graph) Neighbors() (sources, dests []int, w *Weights) {
	if g.nothing() {
		return nil, nil, nil
	}
	if g.weights != nil {
		w = &Weights{slices.Clone(g.weights.Sources), slices.Clone(g.weights.Dests)}
	}
	return slices.Clone(g.hood.sources), slices.Clone(g.hood.dests), w
}

func (g *Graph) nothing() bool { return g == nil || g.Comm.none() }

// Dup is Comm.Dup, and the duplicate is the same graph. Errors: ErrComm. (MPI-4.1, chapter 7.4.2)
func (g *Graph) Dup() (*Graph, error) {
	if g.nothing() {
		return nil, (*Comm)(nil).fail("Dup", (*Comm)(nil).ready())
	}
	c, err := g.Comm.Dup()
	if err != nil {
		return nil, err
	}
	return g.on(c), nil
}

// WithContext is Comm.WithContext, and the view is the same graph.
func (g *Graph) WithContext(ctx context.Context) *Graph {
	if g.nothing() {
		return g
	}
	return g.on(g.Comm.WithContext(ctx))
}

func (g *Graph) on(c *Comm) *Graph {
	d := &Graph{c, g.hood, g.weights}
	d.hood.c = c
	return d
}
