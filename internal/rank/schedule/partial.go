package schedule

// partial is an unfinished combination, and memory for the next contribution.
type partial struct {
	s        *Schedule
	acc      Span
	fixed    bool    // acc must not be written: it is In
	commutes bool    // lower and upper may be swapped
	free     [2]Span // for what comes; the second is spare while acc is fixed
}

// begin starts with the rank's own contribution of k elements. out is memory that the result may lie in; it has no
// length if there is none. inPlace says that the contribution lies there. lowers tells how many parts of lower ranks will
// be joined after the first part: the result moves with each of them, and memory is used so that it ends in out where that
// can be.
func begin(s *Schedule, k int, out Span, inPlace, commutes bool, lowers int) partial {
	p := partial{s: s, acc: Span{In, 0, k}, fixed: true, commutes: commutes}
	switch {
	case inPlace:
		p.acc, p.fixed, p.free[0] = out, false, s.room(k)
	case out.Len != k || k == 0:
		p.free = [2]Span{s.room(k), s.room(k)}
	case commutes || lowers%2 == 0:
		p.free = [2]Span{out, s.room(k)}
	default:
		p.free = [2]Span{s.room(k), out}
	}
	return p
}

// part is the elements [lo:hi) of it.
func (p partial) part(lo, hi int) partial {
	p.acc, p.free[0], p.free[1] = p.acc.Part(lo, hi), p.free[0].Part(lo, hi), p.free[1].Part(lo, hi)
	return p
}

// spare returns memory for the next contribution. It stays spare until join.
func (p *partial) spare() Span { return p.free[0] }

// join combines the contribution in the spare memory with the rest. lower says that it is of lower ranks.
func (p *partial) join(lower bool) {
	p.combine(lower, 0, p.acc.Len)
	p.turn(lower)
}

// combine is join for the elements [lo:hi). After the last of them comes turn.
func (p *partial) combine(lower bool, lo, hi int) {
	came, acc := p.free[0].Part(lo, hi), p.acc.Part(lo, hi)
	switch {
	case lower && !(p.commutes && !p.fixed) || p.commutes && p.fixed:
		p.s.combine(came, came, acc)
	case p.fixed:
		p.s.combine(came, acc, came)
	default:
		p.s.combine(acc, acc, came)
	}
}

// turn makes the result what is combined from then on. It is where that has come which was joined, or where it was.
func (p *partial) turn(lower bool) {
	switch {
	case p.fixed:
		p.acc, p.free[0], p.fixed = p.free[0], p.free[1], false
	case lower && !p.commutes:
		p.acc, p.free[0] = p.free[0], p.acc
	}
}
