package wireup

import (
	"fmt"
	"slices"
	"strings"
)

// Summary says which transport carries what, for people.
type Summary struct {
	Uses  []Use    `json:"uses"`
	Notes []string `json:"notes,omitempty"` // why a preferred transport does not carry everything
	// Unusual tells that some notes are about more than the nodes that ranks are on.
	Unusual bool `json:"unusual,omitempty"`
}

// Use is what one transport carries.
type Use struct {
	Transport string `json:"transport"`
	Pairs     int    `json:"pairs"` // of ranks
}

// Names are the transports in use, by preference.
func (s *Summary) Names() []string {
	var names []string
	for _, u := range s.Uses {
		names = append(names, u.Transport)
	}
	return names
}

// String returns Uses in one line.
func (s *Summary) String() string {
	if len(s.Uses) == 1 {
		return s.Uses[0].Transport
	}
	var parts []string
	for _, u := range s.Uses {
		parts = append(parts, fmt.Sprintf("%s (%d pairs of ranks)", u.Transport, u.Pairs))
	}
	return strings.Join(parts, ", ")
}

// Summary returns the outcome, once the ranks are connected.
func (h *Head) Summary() Summary {
	var s Summary
	carried := h.carried()
	left := h.size * (h.size - 1) / 2
	for _, name := range h.order {
		if n := carried[name]; n > 0 {
			s.Uses = append(s.Uses, Use{name, n})
			left -= n
			s.add(h.denials(name))
		}
		if left == 0 {
			break
		}
		s.add(h.notes(name))
	}
	return s
}

func (s *Summary) add(notes []string, unusual bool) {
	s.Notes = append(s.Notes, notes...)
	s.Unusual = s.Unusual || unusual
}

// carried counts the pairs of ranks that each transport carries.
func (h *Head) carried() map[string]int {
	n := map[string]int{}
	for a := range h.size {
		for b := range a {
			if t := h.route(a, b); t != nil {
				n[t.name]++
			}
		}
	}
	return n
}

// notes says why a transport does not carry everything that the transports preferred to it have left.
func (h *Head) notes(name string) (notes []string, unusual bool) {
	say := func(format string, args ...any) {
		notes = append(notes, name+": "+fmt.Sprintf(format, args...))
	}
	for text, ranks := range h.failures(name) {
		say("%s cannot use it: %s", Ranks(ranks), text)
		unusual = true
	}
	slices.Sort(notes)
	away, pairs := h.apart(name)
	if away > 0 {
		say("%d pairs of ranks are %s", away, OtherNode)
	}
	var reasons []string
	apart := map[string][][2]int{}
	for _, p := range pairs {
		why := h.why(name, p[0], p[1])
		if apart[why] == nil {
			reasons = append(reasons, why)
		}
		apart[why] = append(apart[why], p)
	}
	for _, why := range reasons {
		say("not %s: %s", places(nil, apart[why]), why)
		unusual = true
	}
	return notes, unusual
}

// apart returns the pairs of ranks that both have a transport and reach each other neither with it nor with one
// preferred to it. Pairs on different nodes are only counted, in away.
func (h *Head) apart(name string) (away int, pairs [][2]int) {
	t := h.transport(name)
	for a := range h.size {
		for b := range a {
			r := h.route(b, a)
			switch {
			case !t.open[a] || !t.open[b], r != nil && slices.Index(h.order, r.name) <= slices.Index(h.order, name):
			case h.why(name, b, a) == OtherNode:
				away++
			default:
				pairs = append(pairs, [2]int{b, a})
			}
		}
	}
	return away, pairs
}

// failures returns the ranks that cannot use a transport at all, by their reasons.
func (h *Head) failures(name string) map[string][]int {
	all := map[string][]int{}
	for r := range h.ranks {
		if text, failed := h.ranks[r].failed[name]; failed {
			all[text] = append(all[text], r)
		}
	}
	return all
}

// star removes from the pairs the rank that is in most of them.
func star(pairs [][2]int) (centre int, others []int, rest [][2]int) {
	in := map[int]int{}
	for _, p := range pairs {
		in[p[0]]++
		in[p[1]]++
	}
	for r, n := range in {
		if n > in[centre] || n == in[centre] && r < centre {
			centre = r
		}
	}
	for _, p := range pairs {
		switch centre {
		case p[0]:
			others = append(others, p[1])
		case p[1]:
			others = append(others, p[0])
		default:
			rest = append(rest, p)
		}
	}
	slices.Sort(others)
	return centre, others, rest
}

// Ranks names ranks, given in order: "rank 3", "ranks 0-3, 7".
func Ranks(ranks []int) string {
	var b strings.Builder
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", ranks[i])
		if j > i {
			fmt.Fprintf(&b, "-%d", ranks[j])
		}
		i = j + 1
	}
	if len(ranks) == 1 {
		return "rank " + b.String()
	}
	return "ranks " + b.String()
}
