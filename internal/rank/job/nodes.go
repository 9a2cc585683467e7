package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Ranks choose by these values how they work together. All ranks are told the same values, which stay as they
// were at Init. After a restart from native images, or when ranks have moved, some ranks may be in the middle of a
// call that others have not begun. Transports are chosen again, by what is true now.

// Nodes returns, by world rank, the number of the node that the rank was on when the program began. Ranks with
// equal numbers shared a node. Callers must not change the slice.
func (j *Job) Nodes() []int { return j.nodes }

// Origin is Nodes of the run that the program's communicators come from: if this program has begun from portable images of
// as many ranks, that in which the first of them began without one. So the same calls make the same communicators, whatever
// nodes the ranks are on now. Errors: those of an image that cannot be read. Callers must not change the slice.
func (j *Job) Origin() ([]int, error) {
	if !j.Restarted() || j.ImageOf != 0 {
		return j.nodes, nil
	}
	j.origin.Do(func() {
		j.origins = j.nodes // of an image that does not tell
		b := j.Backend()
		if b == nil {
			return
		}
		noted, err := b.Noted(NodesKey)
		if err == nil && noted != "" {
			j.origins, err = parseNodes(noted, j.Size)
		}
		if err != nil {
			j.originErr = fmt.Errorf("the nodes that the program began on: %w", err)
		}
	})
	return j.origins, j.originErr
}

// NodesKey is where a portable image notes what Origin returns, as FormatNodes writes it.
const NodesKey = "nodes"

// FormatNodes writes the nodes of ranks: "0x4 1x4" are four ranks on node 0 and four on node 1.
func FormatNodes(nodes []int) string {
	var runs []string
	for i := 0; i < len(nodes); {
		n := i
		for n < len(nodes) && nodes[n] == nodes[i] {
			n++
		}
		runs = append(runs, fmt.Sprintf("%dx%d", nodes[i], n-i))
		i = n
	}
	return strings.Join(runs, " ")
}

// parseNodes is the inverse of FormatNodes, for so many ranks.
func parseNodes(s string, ranks int) ([]int, error) {
	nodes := make([]int, 0, ranks)
	for _, run := range strings.Fields(s) {
		number, count, _ := strings.Cut(run, "x")
		node, err1 := strconv.Atoi(number)
		n, err2 := strconv.Atoi(count)
		if err1 != nil || err2 != nil || node < 0 || n < 1 || n > ranks-len(nodes) {
			return nil, fmt.Errorf("%q are no nodes of %d ranks", s, ranks)
		}
		nodes = append(nodes, slices.Repeat([]int{node}, n)...)
	}
	if len(nodes) != ranks {
		return nil, fmt.Errorf("%q are the nodes of %d ranks, not of %d", s, len(nodes), ranks)
	}
	return nodes, nil
}

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
