package job

import "github.com/gorun-mpi/gorun/internal/oob"

// What ranks choose by how they work together is told to all alike, and stays as
// it was when the program began, Init that is: in a process that goes on from an
// image of it some ranks may be in the midst of a call, and others not have begun
// it. Transports, which are chosen anew, go by what is true now.

// Nodes returns, by world rank, the number of the node that the rank was on when
// the program began: ranks with equal numbers shared one. The slice is not to be
// changed.
func (j *Job) Nodes() []int { return j.nodes }

// Params are the parameters of modules that the program began with. They are not
// to be changed.
func (j *Job) Params() map[string]string { return j.began.Params }

// Crowded reports whether, when the program began, some machine had more ranks
// than CPUs.
func (j *Job) Crowded() bool { return j.began.Crowded }

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
