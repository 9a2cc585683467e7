package protect

import "slices"

// Making tracks how far a snapshot in memory is made. It is pure: the head of a job and the
// simulator make the pieces, and report them.
//
//	Wrote    an image is whole on its rank's node; of a group that has all of them the shards can be made
//	Made     a shard is there
//	Lost     the snapshot must not be committed: an image cannot be had any more
//	Lacks    what keeps it from all that the policy wants: then it is weak, see Superseded
type Making struct {
	Groups []Group  // each rank is in one
	wrote  []bool   // by rank
	made   [][]bool // by group and shard
}

// NewMaking begins a snapshot. Without groups each rank is alone.
func NewMaking(ranks int, groups []Group) *Making {
	m := &Making{Groups: groups, wrote: make([]bool, ranks)}
	for rank := 0; len(groups) == 0 && rank < ranks; rank++ {
		m.Groups = append(m.Groups, Group{Ranks: []int{rank}})
	}
	for i := range m.Groups {
		m.made = append(m.made, make([]bool, len(m.Groups[i].Shards)))
	}
	return m
}

// Of is the group of a rank.
func (m *Making) Of(rank int) int {
	return slices.IndexFunc(m.Groups, func(g Group) bool { return slices.Contains(g.Ranks, rank) })
}

// Wrote records that the image of a rank is written. It returns the rank's group if that was the
// group's last missing image.
func (m *Making) Wrote(rank int) (group int, ready bool) {
	if m.wrote[rank] {
		return 0, false
	}
	m.wrote[rank] = true
	group = m.Of(rank)
	return group, !slices.ContainsFunc(m.Groups[group].Ranks, func(r int) bool { return !m.wrote[r] })
}

// Made records that a shard of a group is there.
func (m *Making) Made(group, shard int) { m.made[group][shard] = true }

// Lost lists the ranks whose images cannot be had without some nodes.
func (m *Making) Lost(p Placement, down func(node int) bool) []int {
	have := make([]Group, len(m.Groups))
	for i, g := range m.Groups {
		have[i].Ranks = g.Ranks
		for shard, n := range g.Shards {
			if m.made[i][shard] {
				have[i].Shards = append(have[i].Shards, n)
			}
		}
	}
	return Lost(p, have, down)
}

// Lack is a missing shard. Gone: it was made, and its node is lost.
type Lack struct {
	Group, Shard int
	Gone         bool
}

// Lacks lists the shards that are not there without some nodes.
func (m *Making) Lacks(down func(node int) bool) (all []Lack) {
	for i, g := range m.Groups {
		for shard, n := range g.Shards {
			if made := m.made[i][shard]; !made || down(n) {
				all = append(all, Lack{i, shard, made})
			}
		}
	}
	return all
}
