package mpi

import "slices"

// A grid's neighbours exchange messages, and messages within a node cost less. Where every node has as many ranks,
// each node gets a block of the grid whose surface is as small as possible. Otherwise ranks keep their numbers.

// arranged returns, by point of a grid, the rank of c that comes there. All ranks find the same.
func (c *Comm) arranged(dims []int, periodic []bool) ([]int, error) {
	points := 1
	for _, d := range dims {
		points *= d
	}
	origin, err := c.env.chooser.origin()
	if err != nil {
		return nil, err
	}
	nodes := make([]int, points)
	for r := range nodes {
		nodes[r] = origin[c.toWorld(r)]
	}
	return arrange(dims, periodic, nodes), nil
}

// arrange does so for ranks on the nodes given.
func arrange(dims []int, periodic []bool, nodes []int) []int {
	best := make([]int, len(nodes))
	for i := range best {
		best[i] = i
	}
	groups := map[int][]int{}
	var order []int
	for r, node := range nodes {
		if groups[node] == nil {
			order = append(order, node)
		}
		groups[node] = append(groups[node], r)
	}
	each := len(nodes) / len(order)
	if each < 2 || len(order) < 2 || slices.ContainsFunc(order, func(n int) bool { return len(groups[n]) != each }) {
		return best
	}
	least := crossings(dims, periodic, nodes, best)
	for _, block := range blocksOf(dims, each) {
		at := inBlocks(dims, block, order, groups)
		if n := crossings(dims, periodic, nodes, at); n < least {
			best, least = at, n
		}
	}
	return best
}

// blocksOf returns all blocks of n points that divide a grid.
func blocksOf(dims []int, n int) (all [][]int) {
	if len(dims) == 0 {
		if n == 1 {
			return [][]int{nil}
		}
		return nil
	}
	for b := 1; b <= min(n, dims[0]); b++ {
		if n%b == 0 && dims[0]%b == 0 {
			for _, rest := range blocksOf(dims[1:], n/b) {
				all = append(all, slices.Concat([]int{b}, rest))
			}
		}
	}
	return all
}

// inBlocks gives each node one block of the grid.
func inBlocks(dims, block, order []int, groups map[int][]int) []int {
	at := make([]int, len(order)*len(groups[order[0]]))
	across := make([]int, len(dims))
	for d := range dims {
		across[d] = dims[d] / block[d]
	}
	for point := range at {
		which, within := coordsOf(point, dims), make([]int, len(dims))
		for d := range dims {
			within[d] = which[d] % block[d]
			which[d] /= block[d]
		}
		at[point] = groups[order[pointAt(which, across)]][pointAt(within, block)]
	}
	return at
}

// crossings counts the pairs of neighbours that are on different nodes.
func crossings(dims []int, periodic []bool, nodes, at []int) (n int) {
	for point := range at {
		here := coordsOf(point, dims)
		for d := range dims {
			there := slices.Clone(here)
			if there[d]++; there[d] == dims[d] {
				if !periodic[d] {
					continue
				}
				there[d] = 0
			}
			if nodes[at[point]] != nodes[at[pointAt(there, dims)]] {
				n++
			}
		}
	}
	return n
}
