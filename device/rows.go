package device

// span is some rows: from, and the one after the last.
type span struct{ from, to int }

func (s span) and(o span) span { return span{max(s.from, o.from), min(s.to, o.to)} }

func (s span) empty() bool { return s.from >= s.to }

// rows is a set of rows: spans in order that neither overlap nor touch.
type rows []span

// without is r less the rows of s.
func (r rows) without(s span) rows {
	if s.empty() {
		return r
	}
	var out rows
	for _, o := range r {
		for _, left := range []span{{o.from, min(o.to, s.from)}, {max(o.from, s.to), o.to}} {
			if !left.empty() {
				out = append(out, left)
			}
		}
	}
	return out
}

// with is r and the rows of s.
func (r rows) with(s span) rows {
	if s.empty() {
		return r
	}
	if len(r) == 1 && r[0].from <= s.from && s.to <= r[0].to {
		return r // nothing new, the usual case
	}
	var out rows
	placed := false
	for _, o := range r {
		switch {
		case o.to < s.from:
			out = append(out, o)
		case s.to < o.from:
			if !placed {
				out, placed = append(out, s), true
			}
			out = append(out, o)
		default:
			s = span{min(s.from, o.from), max(s.to, o.to)}
		}
	}
	if !placed {
		out = append(out, s)
	}
	return out
}

// within is the rows of r that are in s.
func (r rows) within(s span) rows {
	var out rows
	for _, o := range r {
		if both := o.and(s); !both.empty() {
			out = append(out, both)
		}
	}
	return out
}

// lacks is the rows of s that are not in r.
func (r rows) lacks(s span) rows {
	if s.empty() {
		return nil
	}
	if len(r) == 1 && r[0].from <= s.from && s.to <= r[0].to {
		return nil
	}
	left := rows{s}
	for _, o := range r {
		left = left.without(o)
	}
	return left
}
