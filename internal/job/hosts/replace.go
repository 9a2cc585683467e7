package hosts

import (
	"errors"
	"fmt"
	"slices"
)

// NodeState is a node and its present state.
type NodeState struct {
	Node
	Up bool // it can be used
}

// Rules are what the user has said about placement.
type Rules struct {
	Policy        Policy
	Oversubscribe Oversubscribe
	Spares        int  // nodes to be kept without ranks
	FewerSpares   bool // fewer suffice if the ranks have no room otherwise
	Shrink        bool // after losses the remaining nodes take more ranks, within their slots
}

// ErrNodes is that of a job for which too few nodes are up.
var ErrNodes = errors.New("not enough nodes")

// Pick places the ranks of a job that begins. The last of the nodes that are up are its spares. A
// node that is not up is replaced by a spare. If no spare is left, only -shrink-to-fit places the
// ranks without it.
func Pick(nodes []NodeState, np int, r Rules) ([][]int, error) {
	placed, err := pick(nodes, np, r)
	for r.FewerSpares && err != nil && r.Spares > 0 {
		r.Spares--
		if fewer, ferr := pick(nodes, np, r); ferr == nil {
			return fewer, nil
		}
	}
	return placed, err
}

// pick is Pick with exactly so many spares.
func pick(nodes []NodeState, np int, r Rules) ([][]int, error) {
	var up, down []int
	for i, n := range nodes {
		if n.Up {
			up = append(up, i)
		} else {
			down = append(down, i)
		}
	}
	work := max(len(nodes)-r.Spares, 0)
	switch {
	case work == 0:
		return nil, fmt.Errorf("%w: -spares %d leaves none of %d for ranks", ErrNodes, r.Spares, len(nodes))
	case len(up) == 0:
		return nil, fmt.Errorf("%w: %s cannot be used", ErrNodes, names(at(nodes, down)))
	case len(up) < work && !r.Shrink:
		return nil, fmt.Errorf("%w: %s cannot be used; name others, or more of them with -spares %d, or give -shrink-to-fit",
			ErrNodes, names(at(nodes, down)), len(down))
	}
	working := up[:min(work, len(up))]
	some, err := Place(at(nodes, working), np, r.Policy, r.Oversubscribe)
	if err != nil {
		if spare := up[len(working):]; len(spare) > 0 {
			err = fmt.Errorf("%w (%s: kept idle by -spares %d)", err, names(at(nodes, spare)), r.Spares)
		}
		return nil, err
	}
	placed := make([][]int, len(nodes))
	for k, i := range working {
		placed[i] = some[k]
	}
	return placed, nil
}

func at(nodes []NodeState, which []int) []Node {
	some := make([]Node, len(which))
	for k, i := range which {
		some[k] = nodes[i].Node
	}
	return some
}

// Replace moves the ranks of nodes that are not up, see the package comment. placed is where they
// were, with an entry for each node; it is not changed.
func Replace(nodes []NodeState, placed [][]int, r Rules) ([][]int, error) {
	m := &mover{nodes: nodes, rules: r, placed: make([][]int, len(nodes)), spare: make([]bool, len(nodes))}
	for i := range nodes {
		m.spare[i] = nodes[i].Up && len(placed[i]) == 0
		if nodes[i].Up {
			m.placed[i] = slices.Clone(placed[i])
		} else if len(placed[i]) > 0 {
			m.lost = append(m.lost, i)
		}
	}
	var homeless []int
	for _, i := range m.lost {
		if !m.whole(placed[i]) {
			homeless = append(homeless, placed[i]...)
		}
	}
	homeless = m.scatter(homeless, func(i int) bool { return m.spare[i] })
	if r.Shrink {
		homeless = m.scatter(homeless, func(int) bool { return true })
	}
	if len(homeless) > 0 {
		return nil, m.missing(len(homeless))
	}
	for _, p := range m.placed {
		slices.Sort(p)
	}
	return m.placed, nil
}

// mover is the state of Replace.
type mover struct {
	nodes  []NodeState
	rules  Rules
	placed [][]int
	spare  []bool // had no ranks when Replace began
	lost   []int  // nodes that had ranks and are not up
}

// whole gives the ranks of a node to a spare that has room for all of them: within its slots if one
// has, else within its limit.
func (m *mover) whole(ranks []int) bool {
	for _, room := range []func(Node) int{Node.slots, func(n Node) int { return n.limit(m.rules.Oversubscribe) }} {
		for i, n := range m.nodes {
			if m.spare[i] && len(m.placed[i]) == 0 && room(n.Node) >= len(ranks) {
				m.placed[i] = slices.Clone(ranks)
				return true
			}
		}
	}
	return false
}

// scatter gives ranks one by one to the least loaded of some nodes, and returns those left over.
func (m *mover) scatter(ranks []int, use func(int) bool) []int {
	var some []Node
	var which, counts []int
	for i, n := range m.nodes {
		if n.Up && use(i) {
			some, which, counts = append(some, n.Node), append(which, i), append(counts, len(m.placed[i]))
		}
	}
	for k, rank := range ranks {
		i := leastLoaded(some, counts, m.rules.Oversubscribe)
		if i < 0 {
			return ranks[k:]
		}
		counts[i]++
		m.placed[which[i]] = append(m.placed[which[i]], rank)
	}
	return nil
}

// missing says which nodes are gone, how many ranks have no room, and the remedy.
func (m *mover) missing(homeless int) error {
	var up []Node
	fits := 0
	for i, n := range m.nodes {
		if n.Up {
			up = append(up, n.Node)
			fits += min(max(n.limit(m.rules.Oversubscribe)-len(m.placed[i]), 0), homeless)
		}
	}
	is := "is"
	if len(m.lost) > 1 {
		is = "are"
	}
	remedy := "-spares N keeps nodes for this"
	switch {
	case len(up) == 0:
		remedy = "no node is left"
	case fits >= homeless:
		remedy += ", -shrink-to-fit uses free slots of " + names(up)
	case !bool(m.rules.Oversubscribe):
		remedy += fmt.Sprintf(", -shrink-to-fit with -oversubscribe goes beyond the slots of %s, of which %d %s free", names(up), fits, areFree(fits))
	default:
		remedy += ", -oversubscribe does not go beyond max_slots"
	}
	return fmt.Errorf("%w: %s %s lost, and no spare has room for %s; %s", ErrNodes, names(at(m.nodes, m.lost)), is, ranks(homeless), remedy)
}

func areFree(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
