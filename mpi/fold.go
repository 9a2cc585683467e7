package mpi

// The order in which a reduction combines the contributions of n ranks: one and
// the same in Reduce, Allreduce and ReduceScatter, whatever the algorithm (but
// Ring) and wherever the ranks are, so that results are the same bits.
//
// Of the n ranks 2^k take part, the largest power of two. The first 2*(n-2^k)
// ranks go in pairs, each of which is one participant; the others are one each.
// Participants then combine in a tree: 0 with 1, 2 with 3, ..., then their
// results, lower with upper. Ranges that are combined are neighbours: an
// operator need not be commutative.
type order struct {
	whole int // participants
	extra int // pairs
}

func orderOf(n int) order {
	whole := 1
	for whole*2 <= n {
		whole *= 2
	}
	return order{whole, n - whole}
}

// participant returns which one a rank belongs to.
func (o order) participant(rank int) int {
	if rank < 2*o.extra {
		return rank / 2
	}
	return rank - o.extra
}

// first is the lowest rank of participant v.
func (o order) first(v int) int {
	if v < o.extra {
		return 2 * v
	}
	return v + o.extra
}

// worker is the rank that acts for participant v: of a pair root, if it is one
// of them, else the upper.
func (o order) worker(v, root int) int {
	switch {
	case v >= o.extra:
		return v + o.extra
	case root == 2*v:
		return root
	}
	return 2*v + 1
}

// partner is the other of a pair, -1 if the rank is not in one.
func (o order) partner(rank int) int {
	if rank < 2*o.extra {
		return rank ^ 1
	}
	return -1
}

// fold combines the contributions of all ranks, k elements each, one after the
// other in all, into the first k.
func fold[T any](all []T, k, n int, op Op[T]) {
	o := orderOf(n)
	at := func(rank int) []T { return all[rank*k : (rank+1)*k] }
	for v := range o.extra {
		op.Apply(at(2*v), at(2*v+1))
	}
	for bit := 1; bit < o.whole; bit *= 2 {
		for v := 0; v < o.whole; v += 2 * bit {
			op.Apply(at(o.first(v)), at(o.first(v+bit)))
		}
	}
}

// below combines low, which comes from lower ranks, with acc, into acc; low is
// used up.
func below[T any](acc, low []T, op Op[T]) {
	op.Apply(low, acc)
	copy(acc, low)
}

// combine combines what came from another range of ranks, lower or upper, into
// acc; came is used up.
func combine[T any](acc, came []T, lower bool, op Op[T]) {
	if lower {
		below(acc, came, op)
	} else {
		op.Apply(acc, came)
	}
}
