package job

import "github.com/gorun-mpi/gorun/internal/oob"

// Nodes returns, by world rank, the number of the node that the rank is on:
// ranks with equal numbers share one. The answer belongs to the present
// incarnation: a process that is restored from an image may find itself beside
// other ranks. The slice is not to be changed.
func (j *Job) Nodes() []int { return *j.nodes.Load() }

// enter takes the configuration of an incarnation.
func (j *Job) enter(start *oob.StartConfig) {
	nodes := nodesOf(start)
	j.nodes.Store(&nodes)
	j.start.Store(start)
}

// nodesOf returns the node of each rank.
func nodesOf(start *oob.StartConfig) []int {
	nodes := make([]int, 0, start.Size)
	for _, n := range start.Nodes {
		for range n.Ranks {
			nodes = append(nodes, n.Number)
		}
	}
	for len(nodes) < start.Size {
		nodes = append(nodes, 0)
	}
	return nodes
}
