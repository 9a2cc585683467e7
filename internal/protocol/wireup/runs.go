package wireup

import (
	"encoding/binary"
	"slices"
)

// span is some consecutive ranks. Lists of spans are in order, and the spans apart.
type span struct{ first, last int }

// count returns how many ranks there are.
func count(a []span) (n int) {
	for _, s := range a {
		n += s.last - s.first + 1
	}
	return n
}

// minus returns what is in a and not in b.
func minus(a, b []span) (rest []span) {
	for _, s := range a {
		for len(b) > 0 && b[0].last < s.first {
			b = b[1:]
		}
		for _, t := range b {
			if t.first > s.last {
				break
			}
			if t.first > s.first {
				rest = append(rest, span{s.first, t.first - 1})
			}
			s.first = t.last + 1
		}
		if s.first <= s.last {
			rest = append(rest, s)
		}
	}
	return rest
}

// common returns what is in both.
func common(a, b []span) []span { return minus(a, minus(a, b)) }

// with adds ranks, given in order, to a.
func with(a []span, ranks []int) []span {
	if len(ranks) == 0 {
		return a
	}
	all := slices.Clone(a)
	for _, r := range ranks {
		all = append(all, span{r, r})
	}
	slices.SortFunc(all, func(x, y span) int { return x.first - y.first })
	joined := all[:1]
	for _, s := range all[1:] {
		if last := &joined[len(joined)-1]; s.first <= last.last+1 {
			last.last = max(last.last, s.last)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

// run is consecutive peers for which there is one reason.
type run struct {
	span
	why uint16
}

// rows keeps lists of reasons. Ranks of one node usually have the same, so there are
// about as many as nodes. Row 0 is empty.
type rows struct {
	size    int
	all     [][]run
	numbers map[string]int32
}

func newRows(size int) *rows { return &rows{size, [][]run{nil}, map[string]int32{"": 0}} }

// add returns the number of a row with the runs of another one and these runs. Later
// runs replace earlier ones.
func (s *rows) add(row int32, runs []run) int32 {
	all := slices.Clone(s.all[row])
	for _, r := range runs {
		r.first, r.last = max(r.first, 0), min(r.last, s.size-1)
		if r.first <= r.last {
			all = append(all, r)
		}
	}
	if !slices.IsSortedFunc(all, byFirst) || meet(all) {
		all = s.painted(all)
	}
	return s.number(join(all))
}

func byFirst(a, b run) int { return a.first - b.first }

// meet reports whether some of the runs, sorted by their first, have a peer in common.
func meet(runs []run) bool {
	for i := 1; i < len(runs); i++ {
		if runs[i].first <= runs[i-1].last {
			return true
		}
	}
	return false
}

// painted returns the runs in order and apart.
func (s *rows) painted(runs []run) []run {
	sorted := slices.Clone(runs)
	if slices.SortFunc(sorted, byFirst); !meet(sorted) {
		return sorted
	}
	why := make([]uint16, s.size)
	for _, r := range runs {
		for p := r.first; p <= r.last; p++ {
			why[p] = r.why
		}
	}
	var all []run
	for p, number := range why {
		if number != 0 {
			all = append(all, run{span{p, p}, number})
		}
	}
	return all
}

// join makes one of neighbouring runs of one reason.
func join(runs []run) []run {
	joined := runs[:0]
	for _, r := range runs {
		if n := len(joined); n > 0 && joined[n-1].why == r.why && joined[n-1].last+1 == r.first {
			joined[n-1].last = r.last
		} else {
			joined = append(joined, r)
		}
	}
	return joined
}

func (s *rows) number(runs []run) int32 {
	var key []byte
	for _, r := range runs {
		key = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(key, uint64(r.first)), uint64(r.last)), uint64(r.why))
	}
	n, ok := s.numbers[string(key)]
	if !ok {
		n = int32(len(s.all))
		s.numbers[string(key)] = n
		s.all = append(s.all, slices.Clone(runs))
	}
	return n
}

// why returns the reason in a row for a peer, 0 if there is none.
func (s *rows) why(row int32, peer int) uint16 {
	runs := s.all[row]
	i, _ := slices.BinarySearchFunc(runs, peer, func(r run, p int) int { return r.last - p })
	if i < len(runs) && runs[i].first <= peer {
		return runs[i].why
	}
	return 0
}

// spans returns the peers that a row has a reason for.
func (s *rows) spans(row int32) []span {
	var all []span
	for _, r := range s.all[row] {
		if n := len(all); n > 0 && all[n-1].last+1 == r.first {
			all[n-1].last = r.last
		} else {
			all = append(all, r.span)
		}
	}
	return all
}
