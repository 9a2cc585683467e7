package mpi

// order is the order in which a reduction combines the contributions of n ranks. It is the same in Reduce,
// Allreduce and ReduceScatter, for every algorithm but Ring, and wherever the ranks are. So results have the
// same bits.
//
// There are 2^k participants, the largest power of two that is not above n. The first 2*(n-2^k) ranks go in
// pairs, and each pair is one participant. Each other rank is one participant. Participants combine in a tree:
// 0 with 1, 2 with 3, and so on; then their results, lower with upper. Only adjacent ranges are combined, so an
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

// participant returns the participant that a rank belongs to.
func (o order) participant(rank int) int {
	if rank < 2*o.extra {
		return rank / 2
	}
	return rank - o.extra
}

// first returns the lowest rank of participant v.
func (o order) first(v int) int {
	if v < o.extra {
		return 2 * v
	}
	return v + o.extra
}

// worker returns the rank that acts for participant v. For a pair that is root, if root is in it, else the
// upper rank.
func (o order) worker(v, root int) int {
	switch {
	case v >= o.extra:
		return v + o.extra
	case root == 2*v:
		return root
	}
	return 2*v + 1
}

// partner returns the other rank of a pair, or -1 if the rank is in none.
func (o order) partner(rank int) int {
	if rank < 2*o.extra {
		return rank ^ 1
	}
	return -1
}

// fold combines the contributions of all ranks into the first k elements. The contributions, k elements each,
// lie one after the other in all.
func fold[T any](all []T, k, n int, op Operator[T]) {
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

// below combines low with acc, into acc. low comes from lower ranks, and is used up.
func below[T any](acc, low []T, op Operator[T]) {
	op.Apply(low, acc)
	copy(acc, low)
}

// combine combines came with acc, into acc. came is from a neighbouring range of ranks, lower or upper, and is
// used up.
func combine[T any](acc, came []T, lower bool, op Operator[T]) {
	if lower {
		below(acc, came, op)
	} else {
		op.Apply(acc, came)
	}
}
