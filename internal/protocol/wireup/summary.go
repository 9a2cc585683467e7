package wireup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Summary says, for people, which transports carry the messages.
type Summary struct {
	Uses  []Use    `json:"uses"`
	Notes []string `json:"notes,omitempty"` // why a preferred transport does not carry everything
	// Unusual says that some notes are about more than ranks being on different nodes.
	Unusual bool `json:"unusual,omitempty"`
}

// Use is what one transport carries.
type Use struct {
	Transport string `json:"transport"`
	Pairs     int    `json:"pairs"`           // of ranks
	About     string `json:"about,omitempty"` // what carries its frames, where the name does not tell
}

// String names the transport, with what carries its frames.
func (u *Use) String() string {
	if u.About == "" {
		return u.Transport
	}
	return u.Transport + " over " + u.About
}

// mostAbout is how many kinds of devices of a transport are named.
const mostAbout = 4

// told says what carries the frames of a transport, with the ranks if that differs.
func (t *transport) told() string {
	if len(t.about) == 1 {
		for text := range t.about {
			return text
		}
	}
	var all []string
	for _, text := range slices.Sorted(maps.Keys(t.about)) {
		if len(all) == mostAbout {
			all = append(all, fmt.Sprintf("%d more", len(t.about)-mostAbout))
			break
		}
		slices.Sort(t.about[text])
		all = append(all, fmt.Sprintf("%s (%s)", text, Ranks(t.about[text])))
	}
	return strings.Join(all, ", ")
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
		return s.Uses[0].String()
	}
	var parts []string
	for _, u := range s.Uses {
		parts = append(parts, fmt.Sprintf("%s (%d pairs of ranks)", u.String(), u.Pairs))
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
			s.Uses = append(s.Uses, Use{name, n, h.transport(name).told()})
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
	counts := map[kind][]int{}
	ends := make([]int, len(h.transports)) // a pair has two
	for r := range h.size {
		k := h.kind(r)
		if counts[k] == nil {
			counts[k] = make([]int, len(h.transports))
			shares, _ := h.shares(r)
			self := 1 // in the first share
			for i, share := range shares {
				counts[k][i] = count(share)
				if counts[k][i] > 0 {
					counts[k][i], self = counts[k][i]-self, 0
				}
			}
		}
		for i, n := range counts[k] {
			ends[i] += n
		}
	}
	n := map[string]int{}
	for i, t := range h.transports {
		n[t.name] = ends[i] / 2
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
	index := slices.Index(h.transports, t)
	remote := h.numbers[OtherNode] // 0: no rank has given that reason
	gone := map[kind][]span{}      // peers that ranks with the transport lack
	seen := map[[2]int]bool{}
	for a := range h.size {
		if !t.open[a] {
			continue
		}
		k := h.kind(a)
		lacked, known := gone[k]
		if !known {
			lacked = h.lacked(a, index)
			gone[k] = lacked
		}
		away += count(lacked)
		for _, r := range h.rows.all[t.why[a]] {
			if r.why == remote {
				continue
			}
			for _, s := range common(lacked, []span{r.span}) {
				for b := s.first; b <= s.last; b++ {
					if p := [2]int{min(a, b), max(a, b)}; h.why(name, p[0], p[1]) != OtherNode && !seen[p] {
						seen[p] = true
						pairs = append(pairs, p)
					}
				}
			}
		}
	}
	slices.SortFunc(pairs, func(p, q [2]int) int { return cmp.Or(p[1]-q[1], p[0]-q[0]) })
	return away/2 - len(pairs), pairs
}

// lacked returns the peers of a rank that have the transport of an index open, too, and are reached neither with
// it nor with one preferred to it.
func (h *Head) lacked(r, index int) []span {
	shares, _ := h.shares(r)
	lacked := h.transports[index].everybody()
	for _, share := range shares[:index+1] {
		lacked = minus(lacked, share)
	}
	return minus(lacked, []span{{r, r}})
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
