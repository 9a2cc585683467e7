package hosts

import "slices"

// Next is the placement of the next life: Replace, and then guests move to spares that have joined
// meanwhile. guests are those of former lives.
func Next(nodes []NodeState, placed [][]int, guests []int, r Rules) (next [][]int, left []int, err error) {
	after, err := Replace(nodes, placed, r)
	if err != nil {
		return nil, nil, err
	}
	stayed := slices.DeleteFunc(slices.Clone(guests), func(rank int) bool { return of(rank, placed) != of(rank, after) })
	next, left = Relieve(nodes, after, append(stayed, Guests(placed, after)...))
	return next, left, nil
}

// of is the node of a rank.
func of(rank int, placed [][]int) int {
	return slices.IndexFunc(placed, func(ranks []int) bool { return slices.Contains(ranks, rank) })
}

// Guests are the ranks that Replace has put on nodes that had ranks already, by -shrink-to-fit.
// before and after are its placements.
func Guests(before, after [][]int) []int {
	var all []int
	for i, ranks := range after {
		if len(before[i]) == 0 {
			continue // it was a spare
		}
		for _, rank := range ranks {
			if !slices.Contains(before[i], rank) {
				all = append(all, rank)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Relieve moves guests to new spares, within their slots. It returns the placement and the
// remaining guests. Its arguments are not changed.
func Relieve(nodes []NodeState, placed [][]int, guests []int) (relieved [][]int, left []int) {
	relieved = make([][]int, len(placed))
	room := make([]int, len(placed))
	for i, ranks := range placed {
		relieved[i] = slices.Clone(ranks)
		if nodes[i].Up && len(ranks) == 0 {
			room[i] = nodes[i].slots()
		}
	}
	for _, rank := range guests {
		to := slices.IndexFunc(room, func(n int) bool { return n > 0 })
		if to < 0 {
			left = append(left, rank)
			continue
		}
		room[to]--
		from := of(rank, placed)
		relieved[from] = slices.DeleteFunc(relieved[from], func(r int) bool { return r == rank })
		relieved[to] = append(relieved[to], rank)
	}
	return relieved, left
}
