package wireup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// denials says which parameters a transport cannot heed between the ranks that it carries. It gives each reason
// once, because each has its own remedy. Two ranks may have one reason each.
func (h *Head) denials(name string) (notes []string, unusual bool) {
	t := h.transport(name)
	if t.denied == nil {
		return nil, false
	}
	whole := map[uint16][]int{} // by reason: ranks that it denies with all peers
	pairs := map[uint16][][2]int{}
	for r := range h.size {
		peers, all := h.deniedTo(t, r)
		if all {
			why := h.rows.why(t.denied[r], peers[0])
			whole[why] = append(whole[why], r)
			continue
		}
		for _, p := range peers {
			why := h.rows.why(t.denied[r], p)
			pairs[why] = append(pairs[why], [2]int{min(r, p), max(r, p)})
		}
	}
	for why, text := range h.reasons {
		if where := places(whole[uint16(why)], pairs[uint16(why)]); where != "" {
			notes = append(notes, fmt.Sprintf("%s: %s it cannot heed %s", name, where, text))
		}
	}
	return notes, len(notes) > 0
}

// places names ranks, and those pairs that contain none of them.
func places(ranks []int, pairs [][2]int) string {
	var all []string
	if ranks != nil {
		all = append(all, "at "+Ranks(ranks))
	}
	pairs = slices.DeleteFunc(pairs, func(p [2]int) bool { return slices.Contains(ranks, p[0]) || slices.Contains(ranks, p[1]) })
	slices.SortFunc(pairs, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	for pairs = slices.Compact(pairs); len(pairs) > 0; {
		var centre int
		var others []int
		centre, others, pairs = star(pairs)
		all = append(all, fmt.Sprintf("between rank %d and %s", centre, Ranks(others)))
	}
	return strings.Join(all, " and ")
}

// deniedTo returns the peers with which a rank cannot heed a parameter. all reports whether the transport
// carries no other peers for that rank, and the reason is the same for all.
func (h *Head) deniedTo(t *transport, r int) (peers []int, all bool) {
	if t.denied == nil || t.denied[r] == 0 {
		return nil, false
	}
	shares, _ := h.shares(r)
	carried := minus(shares[slices.Index(h.transports, t)], []span{{r, r}})
	var first uint16
	all = true
	for _, d := range h.rows.all[t.denied[r]] {
		for _, s := range common(carried, []span{d.span}) {
			for p := s.first; p <= s.last; p++ {
				peers = append(peers, p)
			}
			if first == 0 {
				first = d.why
			}
			all = all && d.why == first
		}
	}
	return peers, all && len(peers) > 0 && len(peers) == count(carried)
}

// Late takes denials that a rank has found after the ranks were connected. It returns them as text
// for people.
func (h *Head) Late(rank int, m *oob.Msg) (notes []string, err error) {
	var info oob.ReachInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return nil, fmt.Errorf("rank %d: its reach: %v", rank, err)
	}
	for _, d := range info.Denied {
		for _, run := range d.Ranks {
			notes = append(notes, fmt.Sprintf("%s: between rank %d and rank %d it can no longer heed %s", d.Transport, rank, run[0], d.Why))
		}
	}
	return notes, nil
}
