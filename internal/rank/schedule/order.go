package schedule

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

// noRoot is the root where there is none.
const noRoot = -1

// fold combines the contributions of n ranks, of which at tells where they lie, into the first of them.
func (s *Schedule) fold(n int, at func(rank int) Span) {
	o := OrderOf(n)
	for v := range o.Extra {
		s.combine(at(2*v), at(2*v+1))
	}
	for bit := 1; bit < o.Whole; bit *= 2 {
		for v := 0; v < o.Whole; v += 2 * bit {
			s.combine(at(o.First(v)), at(o.First(v+bit)))
		}
	}
}

// partial is an unfinished combination, and memory for the next contribution.
type partial struct {
	s     *Schedule
	acc   Span
	fixed bool // acc must not be written
	free  []Span
}

// begin starts with the rank's own contribution of k elements. own is memory that the result may lie in; it has no
// length if there is none. inPlace says that the contribution lies there.
func (s *Schedule) begin(k int, own Span, inPlace bool) *partial {
	p := &partial{s: s, acc: Span{In, 0, k}, fixed: true}
	switch {
	case inPlace:
		p.acc, p.fixed = own, false
		p.free = []Span{s.room(k)}
	case own.Len == k && k > 0:
		p.free = []Span{own, s.room(k)}
	default:
		p.free = []Span{s.room(k), s.room(k)}
	}
	return p
}

// spare returns memory for the next contribution. It stays spare until join.
func (p *partial) spare() Span { return p.free[0] }

// join combines the contribution in the spare memory with the rest. lower says that it is of lower
// ranks. Only the elements [lo:hi) count from then on.
func (p *partial) join(lower bool, lo, hi int) {
	came := p.free[0]
	if lower {
		p.s.combine(came.Part(lo, hi), p.acc.Part(lo, hi))
		if p.free = p.free[1:]; !p.fixed {
			p.free = append(p.free, p.acc)
		}
		p.acc, p.fixed = came, false
		return
	}
	if p.fixed {
		to := p.free[1]
		p.s.copy(to.Part(lo, hi), p.acc.Part(lo, hi))
		p.acc, p.fixed, p.free = to, false, []Span{came}
	}
	p.s.combine(p.acc.Part(lo, hi), came.Part(lo, hi))
}
