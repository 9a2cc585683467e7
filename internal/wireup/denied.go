package wireup

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/internal/oob"
)

// denials says which parameters a transport cannot heed between those that it carries.
func (h *Head) denials(name string) (notes []string, unusual bool) {
	t := h.transport(name)
	if t.denied == nil {
		return nil, false
	}
	whole := map[string][]int{} // ranks that can with nobody
	var pairs [][2]int
	for r := range h.size {
		peers, all := h.deniedTo(t, r)
		if all {
			why := h.reasons[t.denied[r*h.size+peers[0]]]
			whole[why] = append(whole[why], r)
			continue
		}
		for _, p := range peers {
			pairs = append(pairs, [2]int{min(r, p), max(r, p)})
		}
	}
	for why, ranks := range whole {
		notes = append(notes, fmt.Sprintf("%s: at %s it cannot heed %s", name, Ranks(ranks), why))
		pairs = slices.DeleteFunc(pairs, func(p [2]int) bool { return slices.Contains(ranks, p[0]) || slices.Contains(ranks, p[1]) })
	}
	slices.Sort(notes)
	slices.SortFunc(pairs, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	for pairs = slices.Compact(pairs); len(pairs) > 0; {
		var centre int
		var others []int
		centre, others, pairs = star(pairs)
		why := h.reasons[max(t.denied[centre*h.size+others[0]], t.denied[others[0]*h.size+centre])]
		notes = append(notes, fmt.Sprintf("%s: between rank %d and %s it cannot heed %s", name, centre, Ranks(others), why))
	}
	return notes, len(notes) > 0
}

// deniedTo returns the peers of a rank with which it cannot heed a parameter, and
// whether these are all that the transport carries for it, for the same reason.
func (h *Head) deniedTo(t *transport, r int) (peers []int, all bool) {
	all = true
	for p := range h.size {
		if p == r || h.route(r, p) != t {
			continue
		}
		number := t.denied[r*h.size+p]
		if number != 0 {
			peers = append(peers, p)
		}
		all = all && number != 0 && number == t.denied[r*h.size+peers[0]]
	}
	return peers, all && len(peers) > 0
}

// Late takes what a rank has found out since the ranks are connected, and says it for
// people.
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
