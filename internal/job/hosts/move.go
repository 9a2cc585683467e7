package hosts

import (
	"fmt"
	"slices"
)

// Move chooses new nodes for some ranks of a running job; all others stay. to is the node that
// takes them, -1: the package chooses. Then a spare with room for all of them is the first choice,
// then several spares, then the free slots of all nodes except those that the ranks leave. placed
// stays as it is.
func Move(nodes []NodeState, placed [][]int, ranks []int, to int, r Rules) ([][]int, error) {
	m := &mover{nodes: slices.Clone(nodes), rules: r, placed: make([][]int, len(nodes)), spare: make([]bool, len(nodes))}
	for i := range nodes {
		m.spare[i] = nodes[i].Up && len(placed[i]) == 0
		m.placed[i] = slices.DeleteFunc(slices.Clone(placed[i]), func(rank int) bool { return slices.Contains(ranks, rank) })
		if to < 0 && len(m.placed[i]) < len(placed[i]) {
			m.nodes[i].Up = false
		}
	}
	ranks = slices.Sorted(slices.Values(ranks))
	if to >= 0 {
		return m.onto(to, ranks)
	}
	if m.whole(ranks) {
		return m.placed, nil
	}
	left := m.scatter(ranks, func(i int) bool { return m.spare[i] })
	left = m.scatterFree(left)
	if len(left) > 0 {
		return nil, fmt.Errorf("%w: no node but those that the ranks leave has a free slot for %s; name one with -to, gorun join brings more", ErrSlots, these(left))
	}
	m.sort()
	return m.placed, nil
}

func (m *mover) sort() {
	for _, p := range m.placed {
		slices.Sort(p)
	}
}

// onto gives ranks to one node.
func (m *mover) onto(to int, ranks []int) ([][]int, error) {
	n := m.nodes[to]
	if !n.Up {
		return nil, fmt.Errorf("%w: node %s cannot be used", ErrNodes, n.Name)
	}
	if limit := n.limit(m.rules.Oversubscribe); len(m.placed[to])+len(ranks) > limit {
		return nil, fmt.Errorf("%w: node %s takes %d at most and has %d already: there is no room for %s; start the job with more slots for it, or with -oversubscribe",
			ErrSlots, n.Name, limit, len(m.placed[to]), these(ranks))
	}
	m.placed[to] = append(m.placed[to], ranks...)
	m.sort()
	return m.placed, nil
}

// scatterFree gives ranks one by one to the least loaded node with a free slot, and returns those left over.
func (m *mover) scatterFree(ranks []int) []int {
	for k, rank := range ranks {
		best := -1
		for i, n := range m.nodes {
			if room := min(n.slots(), n.limit(m.rules.Oversubscribe)); !n.Up || len(m.placed[i]) >= room {
				continue
			}
			if best < 0 || len(m.placed[i])*m.nodes[best].slots() < len(m.placed[best])*n.slots() {
				best = i
			}
		}
		if best < 0 {
			return ranks[k:]
		}
		m.placed[best] = append(m.placed[best], rank)
	}
	return nil
}

// these names ranks for people.
func these(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprint("rank ", ranks[0])
	}
	return fmt.Sprint(len(ranks), " ranks")
}
