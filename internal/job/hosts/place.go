package hosts

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Policy says in which order slots are taken.
type Policy int

const (
	// BySlot fills a node's slots before it goes to the next.
	BySlot Policy = iota
	// ByNode deals ranks out, one to each node in turn, as long as nodes have slots left.
	ByNode
	// BySocket fills nodes as BySlot does, and deals a node's ranks out to its sockets.
	BySocket
	// ByCore fills nodes as BySlot does, and gives neighbouring cores to neighbouring ranks.
	ByCore
)

// Policies lists what ParsePolicy knows, in the order of the constants.
var Policies = []string{"slot", "node", "socket", "core"}

func (p Policy) String() string { return Policies[p] }

// ParsePolicy reads the value of -map.
func ParsePolicy(s string) (Policy, error) {
	for i, name := range Policies {
		if s == name {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("-map %s: known are %s", s, strings.Join(Policies, ", "))
}

// Oversubscribe permits more ranks than slots.
type Oversubscribe bool

// ErrSlots is that of ranks for which there is no room.
var ErrSlots = errors.New("not enough slots")

// Place gives each of np ranks to a node. Ranks of a node are in order; a node may get none. Slots
// that were not given should be CPUs by now (WithCPUs), and are at least 1. If there is no room
// the error is an ErrSlots that says what would help.
func Place(nodes []Node, np int, p Policy, over Oversubscribe) ([][]int, error) {
	counts := make([]int, len(nodes))
	if err := fill(nodes, counts, np, p, over); err != nil {
		return nil, err
	}
	placed := make([][]int, len(nodes))
	if p == ByNode {
		deal(placed, counts, np)
		return placed, nil
	}
	rank := 0
	for i, n := range counts {
		for range n {
			placed[i] = append(placed[i], rank)
			rank++
		}
	}
	return placed, nil
}

// deal gives ranks to nodes in turn until each has as many as counted.
func deal(placed [][]int, counts []int, np int) {
	for rank := 0; rank < np; {
		for i := range placed {
			if len(placed[i]) < counts[i] {
				placed[i] = append(placed[i], rank)
				rank++
			}
		}
	}
}

// fill adds np ranks to the counts of nodes: first into slots, then beyond them if that is allowed.
func fill(nodes []Node, counts []int, np int, p Policy, over Oversubscribe) error {
	left := np
	if p == ByNode {
		for took := true; took && left > 0; {
			took = false
			for i := 0; i < len(nodes) && left > 0; i++ {
				if counts[i] < nodes[i].slots() {
					counts[i]++
					left--
					took = true
				}
			}
		}
	} else {
		for i := range nodes {
			take := min(left, max(nodes[i].slots()-counts[i], 0))
			counts[i] += take
			left -= take
		}
	}
	for ; left > 0; left-- {
		i := leastLoaded(nodes, counts, over)
		if i < 0 {
			return tooFew(nodes, np, left, over)
		}
		counts[i]++
	}
	return nil
}

// slots is the number of slots filled before any node gets more ranks.
func (n Node) slots() int {
	slots := max(n.Slots, 1)
	if n.MaxSlots > 0 {
		slots = min(slots, n.MaxSlots)
	}
	return slots
}

// limit is how many ranks a node takes at most.
func (n Node) limit(over Oversubscribe) int {
	const none = math.MaxInt // as a number, which no job reaches
	switch {
	case n.SlotsGiven && !bool(over):
		return n.Slots
	case n.MaxSlots > 0:
		return n.MaxSlots
	}
	return none
}

// leastLoaded is the node with the fewest ranks for its slots that takes one more, -1 if none does.
func leastLoaded(nodes []Node, counts []int, over Oversubscribe) int {
	best := -1
	for i, n := range nodes {
		if counts[i] >= n.limit(over) {
			continue
		}
		if best < 0 || counts[i]*nodes[best].slots() < counts[best]*n.slots() {
			best = i
		}
	}
	return best
}

// tooFew says how many slots are missing and what to do about it.
func tooFew(nodes []Node, np, missing int, over Oversubscribe) error {
	remedy := "; name more nodes or slots, or give -oversubscribe"
	if over {
		remedy = "; -oversubscribe does not go beyond max_slots"
	}
	return fmt.Errorf("%w: %s, and %s %s room for %d%s", ErrSlots, ranks(np), names(nodes), have(len(nodes)), np-missing, remedy)
}

func have(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func ranks(n int) string {
	if n == 1 {
		return "1 rank"
	}
	return fmt.Sprint(n, " ranks")
}

// names lists nodes for people, the first few of many.
func names(nodes []Node) string {
	const most = 8
	var s []string
	for i, n := range nodes {
		if i == most {
			s = append(s, fmt.Sprintf("%d more", len(nodes)-most))
			break
		}
		s = append(s, n.Name)
	}
	switch len(s) {
	case 0:
		return "no node"
	case 1:
		return s[0]
	}
	return strings.Join(s[:len(s)-1], ", ") + " and " + s[len(s)-1]
}
