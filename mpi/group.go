package mpi

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
)

// Group is an ordered set of ranks. It is a value: calls make new groups and change none. The zero Group is empty.
// Groups are made of communicators' groups, and communicators are made of groups. (MPI-4.1, chapter 7.2.1)
type Group struct {
	ranks []int // of the world, in order
	me    int   // the calling rank in the world
	size  int   // of the world
}

// Group returns the group of c: of an intercommunicator, the one that the calling rank is in. It is empty if c is
// nil. (MPI-4.1, chapter 7.3.2, MPI_Comm_group)
func (c *Comm) Group() Group {
	if c.none() {
		return Group{}
	}
	return c.own().group()
}

func (c *core) group() Group {
	g := Group{me: c.env.job.Rank, size: c.env.job.Size}
	for r := range c.size {
		g.ranks = append(g.ranks, c.toWorld(r))
	}
	return g
}

// Size returns the number of ranks in g. (MPI-4.1, chapter 7.3.1)
func (g Group) Size() int { return len(g.ranks) }

// Rank returns the calling rank's number in g, Undefined if it is not in g. (MPI-4.1, chapter 7.3.1)
func (g Group) Rank() int { return g.find(g.me) }

// find returns the place of a rank of the world.
func (g Group) find(world int) int {
	if i := slices.Index(g.ranks, world); i >= 0 {
		return i
	}
	return Undefined
}

// with returns a group of other ranks of the same job.
func (g Group) with(ranks []int) Group {
	g.ranks = ranks
	return g
}

// set returns the ranks of g.
func (g Group) set() map[int]bool {
	in := make(map[int]bool, len(g.ranks))
	for _, r := range g.ranks {
		in[r] = true
	}
	return in
}

// among returns the ranks of g that are in a set, or that are not.
func (g Group) among(in map[int]bool, are bool) []int {
	var all []int
	for _, r := range g.ranks {
		if in[r] == are {
			all = append(all, r)
		}
	}
	return all
}

// Union returns the ranks of g, and after them those of h that are not in g. (MPI-4.1, chapter 7.3.2)
func (g Group) Union(h Group) Group {
	if g.size == 0 { // the zero Group knows of no job
		return h
	}
	return g.with(slices.Concat(g.ranks, h.among(g.set(), false)))
}

// Intersect returns the ranks of g that are in h, too, in the order of g. (MPI-4.1, chapter 7.3.2)
func (g Group) Intersect(h Group) Group { return g.with(g.among(h.set(), true)) }

// Difference returns the ranks of g that are not in h, in the order of g. (MPI-4.1, chapter 7.3.2)
func (g Group) Difference(h Group) Group { return g.with(g.among(h.set(), false)) }

// Include returns the ranks of g with the given numbers, in that order. Errors: ErrRank if there is no such
// number, or one is given twice. (MPI-4.1, chapter 7.3.2, MPI_Group_incl)
func (g Group) Include(ranks ...int) (Group, error) {
	if err := g.check(ranks); err != nil {
		return Group{}, (*Comm)(nil).fail("Include", err)
	}
	all := make([]int, len(ranks))
	for i, r := range ranks {
		all[i] = g.ranks[r]
	}
	return g.with(all), nil
}

// Exclude returns all ranks of g but those with the given numbers, in the order of g. Errors: as Include.
// (MPI-4.1, chapter 7.3.2, MPI_Group_excl)
func (g Group) Exclude(ranks ...int) (Group, error) {
	if err := g.check(ranks); err != nil {
		return Group{}, (*Comm)(nil).fail("Exclude", err)
	}
	var all []int
	out := make(map[int]bool, len(ranks))
	for _, i := range ranks {
		out[i] = true
	}
	for i, r := range g.ranks {
		if !out[i] {
			all = append(all, r)
		}
	}
	return g.with(all), nil
}

func (g Group) check(ranks []int) error {
	seen := make(map[int]bool, len(ranks))
	for _, r := range ranks {
		if r < 0 || r >= len(g.ranks) {
			return fmt.Errorf("%w: %d, in a group of %d", ErrRank, r, len(g.ranks))
		}
		if seen[r] {
			return fmt.Errorf("%w: %d is given twice", ErrRank, r)
		}
		seen[r] = true
	}
	return nil
}

// Translate returns the number in h of a rank of g, Undefined if it is not in h or there is none. ProcNull stays
// what it is. (MPI-4.1, chapter 7.3.1, MPI_Group_translate_ranks)
func (g Group) Translate(rank int, h Group) int {
	switch {
	case rank == ProcNull:
		return ProcNull
	case rank < 0 || rank >= len(g.ranks):
		return Undefined
	}
	return h.find(g.ranks[rank])
}

// Comparison tells how alike two groups or communicators are. (MPI-4.1, chapters 7.3.1, 7.4.1)
type Comparison int

const (
	Ident     Comparison = iota // the same communicator; groups: the same ranks in the same order
	Congruent                   // communicators: the same ranks in the same order, and other messages
	Similar                     // the same ranks in another order
	Unequal                     // other ranks
)

// String returns the name of the constant.
func (c Comparison) String() string {
	if c >= Ident && c <= Unequal {
		return []string{"Ident", "Congruent", "Similar", "Unequal"}[c]
	}
	return fmt.Sprintf("Comparison(%d)", int(c))
}

// Compare returns Ident, Similar or Unequal. (MPI-4.1, chapter 7.3.1, MPI_Group_compare)
func (g Group) Compare(h Group) Comparison {
	switch {
	case slices.Equal(g.ranks, h.ranks):
		return Ident
	case len(g.ranks) == len(h.ranks) && len(g.among(h.set(), true)) == len(g.ranks):
		return Similar
	}
	return Unequal
}

// Compare tells how alike c and d are. Intercommunicators compare both groups; one is Unequal to every
// intracommunicator. Errors: ErrComm. (MPI-4.1, chapter 7.4.1, MPI_Comm_compare)
func (c *Comm) Compare(d *Comm) (Comparison, error) {
	if err := first(c.ready(), d.ready()); err != nil {
		return Unequal, c.fail("Compare", err)
	}
	if c.core == d.core {
		return Ident, nil
	}
	if (c.inter != nil) != (d.inter != nil) {
		return Unequal, nil
	}
	return max(Congruent, c.Group().Compare(d.Group()), c.core.group().Compare(d.core.group())), nil
}

// digest hashes the ranks of a group in their order.
func digest(ranks []int) uint64 {
	h := fnv.New64a()
	var b [8]byte
	for _, r := range ranks {
		binary.LittleEndian.PutUint64(b[:], uint64(r))
		h.Write(b[:])
	}
	return h.Sum64()
}
