// Package protect decides which nodes hold the pieces that are needed when other nodes are lost:
// replicas of images, or the parity of several. It is pure logic: functions of which rank is on
// which node, without bytes, clocks or connections.
//
// The image of a rank lies on the rank's own node. A Group protects the images of some ranks by shards on other nodes:
//
//	one rank, k shards:    each shard is a replica of its image
//	n ranks, k shards:     shard i is parity i of a Reed-Solomon code over the n images
//
// Both are restored in the same way: any n of the n+k pieces of a group suffice. All pieces of a
// group lie on distinct nodes, so a node that is lost takes at most one piece of each group with
// it. That is why any k nodes may be lost. A Policy makes groups of a Placement. It is computed
// again when ranks have moved.
package protect

import (
	"errors"
	"fmt"
	"slices"
)

// Placement says where the ranks of a job are.
type Placement struct {
	Nodes []Node // those that can hold pieces, spares included
	Of    []int  // by rank: the index of its node
}

// Node is a node of a placement.
type Node struct {
	Name string
	Rack string // what fails together; "": not known
}

// Group is ranks whose images are protected together.
type Group struct {
	Ranks  []int // on distinct nodes
	Shards []int // the node of each shard, distinct, and none of a rank of the group
}

// Promise is the largest loss at one time after which every image is still available.
type Promise struct {
	Nodes int // any so many nodes
	Racks int // or all nodes of any so many racks
}

func (p Promise) String() string {
	s := fmt.Sprintf("the loss of any %d node(s)", p.Nodes)
	if p.Racks > 0 {
		s += fmt.Sprintf(", or of all nodes of any %d rack(s)", p.Racks)
	}
	return s
}

// Policy makes groups. It is a pure function.
type Policy interface {
	// String is how users write it, as Parse reads it.
	String() string
	// Promise is the loss that its groups survive.
	Promise() Promise
	// Groups protects every rank once. It is an error if the placement does not allow that.
	Groups(p Placement) ([]Group, error)
}

// Check refuses an impossible placement.
func (p *Placement) Check() error {
	if len(p.Nodes) == 0 || len(p.Of) == 0 {
		return errors.New("no nodes or no ranks")
	}
	for rank, n := range p.Of {
		if n < 0 || n >= len(p.Nodes) {
			return fmt.Errorf("rank %d is on node %d of %d", rank, n, len(p.Nodes))
		}
	}
	return nil
}

// byNode lists the ranks of each node.
func (p *Placement) byNode() [][]int {
	of := make([][]int, len(p.Nodes))
	for rank, n := range p.Of {
		of[n] = append(of[n], rank)
	}
	return of
}

// CheckGroups says how groups break the rules: every rank is in one of them, and the pieces of each lie on
// distinct nodes.
func CheckGroups(p Placement, groups []Group) error {
	seen := make([]bool, len(p.Of))
	for i := range groups {
		g := &groups[i]
		taken := map[int]string{}
		put := func(n int, what string) error {
			if n < 0 || n >= len(p.Nodes) {
				return fmt.Errorf("%s is on node %d, and there are %d", what, n, len(p.Nodes))
			}
			if other, there := taken[n]; there {
				return fmt.Errorf("node %s has both %s and %s: losing it would lose two pieces of one group", p.Nodes[n].Name, other, what)
			}
			taken[n] = what
			return nil
		}
		for _, rank := range g.Ranks {
			if rank < 0 || rank >= len(p.Of) || seen[rank] {
				return fmt.Errorf("rank %d is in two groups, or is none of the %d ranks", rank, len(p.Of))
			}
			seen[rank] = true
			if err := put(p.Of[rank], fmt.Sprintf("rank %d", rank)); err != nil {
				return err
			}
		}
		for k, n := range g.Shards {
			if err := put(n, fmt.Sprintf("shard %d of the group of rank %d", k, g.Ranks[0])); err != nil {
				return err
			}
		}
	}
	if rank := slices.Index(seen, false); rank >= 0 {
		return fmt.Errorf("rank %d is in no group", rank)
	}
	return nil
}

// Recoverable reports whether the images of a group can be had without some nodes.
func (g *Group) Recoverable(p Placement, lost func(node int) bool) bool {
	left := 0
	for _, rank := range g.Ranks {
		if !lost(p.Of[rank]) {
			left++
		}
	}
	for _, n := range g.Shards {
		if !lost(n) {
			left++
		}
	}
	return left >= len(g.Ranks)
}

// Lost lists the ranks whose images cannot be had without some nodes.
func Lost(p Placement, groups []Group, lost func(node int) bool) (ranks []int) {
	for i := range groups {
		g := &groups[i]
		if g.Recoverable(p, lost) {
			continue
		}
		for _, rank := range g.Ranks {
			if lost(p.Of[rank]) {
				ranks = append(ranks, rank)
			}
		}
	}
	slices.Sort(ranks)
	return ranks
}

// Load is how many bytes each node holds of others, if the image of each rank has this size. A parity shard is as long as the longest
// image of its group.
func Load(p Placement, groups []Group, size func(rank int) int64) []int64 {
	load := make([]int64, len(p.Nodes))
	for _, g := range groups {
		longest := int64(0)
		for _, rank := range g.Ranks {
			longest = max(longest, size(rank))
		}
		for _, n := range g.Shards {
			load[n] += longest
		}
	}
	return load
}
