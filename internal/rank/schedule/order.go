package schedule

import "math/bits"

// Order is the order in which a reduction combines the contributions of n ranks. It is the same in
// Reduce, Allreduce and ReduceScatter, for every algorithm except a ring, and on every placement of
// the ranks: results have the same bits.
//
// There are 2^k participants, the largest power of two that is not above n. The first 2*(n-2^k) ranks go in pairs,
// and each pair is one participant. Each other rank is one participant. Participants combine in a tree: 0 with 1, 2
// with 3, and so on; then their results, lower with upper. Only adjacent ranges are combined, so an operator need not
// be commutative.
type Order struct {
	Whole int // participants
	Extra int // pairs
}

// OrderOf returns the order of n ranks.
func OrderOf(n int) Order {
	whole := 1
	for whole*2 <= n {
		whole *= 2
	}
	return Order{whole, n - whole}
}

// Participant returns the participant that a rank belongs to.
func (o Order) Participant(rank int) int {
	if rank < 2*o.Extra {
		return rank / 2
	}
	return rank - o.Extra
}

// First returns the lowest rank of participant v.
func (o Order) First(v int) int {
	if v < o.Extra {
		return 2 * v
	}
	return v + o.Extra
}

// Worker returns the rank that acts for participant v: of a pair root, if root is in it, else the upper rank.
func (o Order) Worker(v, root int) int {
	switch {
	case v >= o.Extra:
		return v + o.Extra
	case root == 2*v:
		return root
	}
	return 2*v + 1
}

// Partner returns the other rank of a pair, or -1 if the rank is in none.
func (o Order) Partner(rank int) int {
	if rank < 2*o.Extra {
		return rank ^ 1
	}
	return -1
}

// lowers counts the parts of lower ranks that participant v joins after its first part, in the rounds before that of a
// bit. paired says that the first one is that of the other rank of a pair.
func (o Order) lowers(v, bit int, paired bool) int {
	if !paired {
		v &^= 1
	}
	return bits.OnesCount(uint(v & (bit - 1)))
}

// noRoot is the root where there is none.
const noRoot = -1

// fold combines the contributions of n ranks, of which at tells where they lie, into the first of them.
func fold(s *Schedule, n int, at func(rank int) Span) {
	Fold(n, func(low, high int) {
		a := at(low)
		s.combine(a, a, at(high))
	})
}

// Fold tells in which order to combine the contributions of n ranks: each time that of high, and what was combined with
// it, with that of low, into low's place.
func Fold(n int, combine func(low, high int)) {
	o := OrderOf(n)
	for v := range o.Extra {
		combine(2*v, 2*v+1)
	}
	for bit := 1; bit < o.Whole; bit *= 2 {
		for v := 0; v < o.Whole; v += 2 * bit {
			combine(o.First(v), o.First(v+bit))
		}
	}
}
