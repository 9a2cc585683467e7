package job

import (
	"slices"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// Ranks choose by these values how they work together. All ranks are told the same values, which stay as they
// were at Init. After a restart from native images, or when ranks have moved, some ranks may be in the middle of a
// call that others have not begun. Transports are chosen anew, by what is true now.

// Nodes returns, by world rank, the number of the node that the rank was on when the program began. Ranks with
// equal numbers shared a node. Callers must not change the slice.
func (j *Job) Nodes() []int { return j.nodes }

// Params are the parameters of modules that the program began with. Callers must not change them.
func (j *Job) Params() map[string]string { return j.began.Params }

// Crowded reports whether some machine had more ranks than CPUs when the program began.
func (j *Job) Crowded() bool { return j.began.Crowded }

// nodesOf returns the node of each rank.
func nodesOf(start *oob.StartConfig) []int {
	return perRank(start, func(n *oob.Node) int { return n.Number })
}

// machinesOf returns the machine of each rank. If the launcher does not tell, each node is one.
func machinesOf(start *oob.StartConfig) []int {
	if slices.ContainsFunc(start.Nodes, func(n oob.Node) bool { return n.Machine == 0 }) {
		return nodesOf(start)
	}
	return perRank(start, func(n *oob.Node) int { return n.Machine - 1 })
}

func perRank(start *oob.StartConfig, number func(*oob.Node) int) []int {
	all := make([]int, 0, start.Size)
	for i := range start.Nodes {
		for range start.Nodes[i].Ranks {
			all = append(all, number(&start.Nodes[i]))
		}
	}
	for len(all) < start.Size {
		all = append(all, 0)
	}
	return all
}
