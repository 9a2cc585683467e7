package wireup

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// OtherNode is the reason why a transport within a node does not reach a rank.
const OtherNode = "on different nodes"

// Head collects what the ranks say about their transports, and decides for each pair.
type Head struct {
	size       int
	order      []string // transports by preference
	transports []*transport
	ranks      []rank
	reasons    []string // why a rank does not reach another, by number; 0 is no reason
	numbers    map[string]uint16
	rows       *rows
	addresses  addresses
	awaited    oob.Kind // what the ranks send next: Address, Reach, or 0 when they are connected
	heard      []bool   // by rank: it has sent it
	got        int      // how many have
}

// rank describes one rank.
type rank struct {
	left   bool // it has not opened all transports
	failed map[string]string
}

// transport tells how far one transport reaches.
type transport struct {
	name  string
	fresh bool    // opened in this round
	open  []bool  // by rank
	why   []int32 // by rank: the row with the reasons why it does not reach peers
	lacks []int32 // by rank: a row of all peers with which it cannot use the transport, of those that have it open
	// denied is, by rank, a row with the reasons why a parameter cannot be heeded with peers. nil: all can be
	// heeded.
	denied []int32
	opened []span           // the ranks that have it open; nil: to be found out
	about  map[string][]int // what carries its frames, where the name does not tell, and of which ranks
}

// New returns the head of a job of so many ranks.
func New(size int) *Head {
	return &Head{
		size: size, ranks: make([]rank, size), reasons: []string{""}, numbers: map[string]uint16{}, rows: newRows(size),
		addresses: newAddresses(size), awaited: oob.Address, heard: make([]bool, size),
	}
}

// expects notes that a rank has sent a message. Each rank sends one of its kind in a round, and never before
// the head has answered the one before. An agent that does otherwise would be counted in another's place.
func (h *Head) expects(rank int, kind oob.Kind) error {
	switch {
	case h.awaited != kind:
		return fmt.Errorf("rank %d: %w: a %s message when it is not its turn", rank, ErrOrder, names[kind])
	case h.heard[rank]:
		return fmt.Errorf("rank %d: %w: a second %s message", rank, ErrOrder, names[kind])
	}
	h.heard[rank] = true
	return nil
}

var names = map[oob.Kind]string{oob.Address: "Address", oob.Reach: "Reach"}

// ErrOrder is wrapped when a rank does not keep to the order of messages.
var ErrOrder = errors.New("wire-up out of order")

// all counts one more rank, and reports whether that was the last.
func (h *Head) all() bool {
	h.got++
	if h.got == h.size {
		h.got = 0
		clear(h.heard)
		return true
	}
	return false
}

func message(kind oob.Kind, v any) *oob.Msg {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot happen: these are our own types
	}
	return &oob.Msg{Kind: kind, From: oob.Head, Data: data}
}

// Reach takes how far the transports of a rank reach. When all ranks have reported, it returns the
// message for every rank. done reports that this message connects them. An error names two ranks
// that cannot be connected.
func (h *Head) Reach(rank int, m *oob.Msg) (reply *oob.Msg, done bool, err error) {
	var info oob.ReachInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return nil, false, fmt.Errorf("rank %d: its reach: %v", rank, err)
	}
	if err := h.expects(rank, oob.Reach); err != nil {
		return nil, false, err
	}
	h.note(rank, &info)
	if !h.all() {
		return nil, false, nil
	}
	routes := oob.RoutesInfo{Forgo: h.symmetric()}
	if a, b, ok := h.unjoined(); ok {
		if !h.ranks[a].left && !h.ranks[b].left {
			return nil, false, h.cannot(a, b)
		}
		routes.More = true
	}
	h.awaited = 0
	if routes.More {
		h.awaited = oob.Address
		h.addresses.round++
	}
	return message(oob.Routes, routes), !routes.More, nil
}

func (h *Head) note(r int, info *oob.ReachInfo) {
	if h.order == nil {
		h.order = info.Order
	}
	h.ranks[r].left = info.Left
	if info.Failed != nil {
		h.ranks[r].failed = info.Failed
	}
	for _, name := range info.Opened {
		t := h.transport(name)
		t.fresh, t.open[r], t.opened = true, true, nil
		if text := info.About[name]; text != "" {
			if t.about == nil {
				t.about = map[string][]int{}
			}
			t.about[text] = append(t.about[text], r)
		}
	}
	by := map[string][]run{}
	for _, not := range info.Not {
		by[not.Transport] = h.reasoned(by[not.Transport], &not)
	}
	for name, runs := range by {
		t := h.transport(name)
		t.why[r] = h.rows.add(t.why[r], runs)
	}
	clear(by)
	for _, d := range info.Denied {
		by[d.Transport] = h.reasoned(by[d.Transport], &d)
	}
	for name, runs := range by {
		t := h.transport(name)
		if t.denied == nil {
			t.denied = make([]int32, h.size)
		}
		t.denied[r] = h.rows.add(t.denied[r], runs)
	}
}

// reasoned adds to runs those of u.
func (h *Head) reasoned(runs []run, u *oob.Unreached) []run {
	number := h.number(u.Why)
	for _, r := range u.Ranks {
		runs = append(runs, run{span{r[0], r[1]}, number})
	}
	return runs
}

func (h *Head) transport(name string) *transport {
	for _, t := range h.transports {
		if t.name == name {
			return t
		}
	}
	t := &transport{name: name, open: make([]bool, h.size), why: make([]int32, h.size), lacks: make([]int32, h.size)}
	h.transports = append(h.transports, t)
	slices.SortStableFunc(h.transports, func(a, b *transport) int {
		return slices.Index(h.order, a.name) - slices.Index(h.order, b.name)
	})
	return t
}

// everybody returns the ranks that have a transport open.
func (t *transport) everybody() []span {
	if t.opened == nil {
		for r, open := range t.open {
			if n := len(t.opened); open && n > 0 && t.opened[n-1].last == r-1 {
				t.opened[n-1].last = r
			} else if open {
				t.opened = append(t.opened, span{r, r})
			}
		}
	}
	return t.opened
}

func (h *Head) number(why string) uint16 {
	n, ok := h.numbers[why]
	if !ok && len(h.reasons) < 1<<16 {
		n = uint16(len(h.reasons))
		h.numbers[why] = n
		h.reasons = append(h.reasons, why)
	}
	return max(n, 1)
}

// reaches reports whether a reaches b.
func (h *Head) reaches(t *transport, a, b int) bool {
	return t.open[a] && t.open[b] && h.rows.why(t.why[a], b) == 0
}

// symmetric returns, by rank, the peers that do not reach it although it reaches them. It updates
// the peers that ranks lack.
func (h *Head) symmetric() map[int][]oob.Unreached {
	forgo := map[int][]oob.Unreached{}
	for _, t := range h.transports {
		if !t.fresh {
			continue
		}
		oneSided := h.oneSided(t)
		for _, a := range slices.Sorted(maps.Keys(oneSided)) {
			forgo[a] = append(forgo[a], oob.Unreached{Transport: t.name, Ranks: oob.RunsOf(oneSided[a])})
		}
		lacks := make([]int32, len(h.rows.all)) // by row of reasons; 0: not known yet
		for a := range h.size {
			if row := t.why[a]; row != 0 && lacks[row] == 0 {
				lacks[row] = h.lack(h.rows.spans(row))
			}
			if t.lacks[a] = lacks[t.why[a]]; oneSided[a] != nil {
				t.lacks[a] = h.lack(with(h.rows.spans(t.why[a]), oneSided[a]))
			}
		}
	}
	return forgo
}

// lack returns the row of some peers, whatever the reason.
func (h *Head) lack(peers []span) int32 {
	var runs []run
	for _, s := range peers {
		runs = append(runs, run{s, 1})
	}
	return h.rows.number(runs)
}

// oneSided returns, by rank, the peers that it reaches by a transport and that do not reach it. It looks at each
// row of reasons, not at each rank: at the peers that the ranks with this row reach, and at their rows.
func (h *Head) oneSided(t *transport) map[int][]int {
	found := map[int][]int{}
	sharing := map[int32][]int{}
	for a, row := range t.why {
		if t.open[a] {
			sharing[row] = append(sharing[row], a)
		}
	}
	for row, ranks := range sharing {
		var last int32 // a peer's row
		var shy []int  // of ranks, those that a peer with this row does not reach
		for _, s := range minus(t.everybody(), h.rows.spans(row)) {
			for b := s.first; b <= s.last; b++ {
				if t.why[b] == 0 {
					continue
				}
				if t.why[b] != last {
					last, shy = t.why[b], nil
					for _, a := range ranks {
						if h.rows.why(last, a) != 0 {
							shy = append(shy, a)
						}
					}
				}
				for _, a := range shy {
					if a != b {
						found[a] = append(found[a], b)
					}
				}
			}
		}
	}
	return found
}

// route returns the transport between two ranks, or nil.
func (h *Head) route(a, b int) *transport {
	for _, t := range h.transports {
		if h.reaches(t, a, b) && h.reaches(t, b, a) {
			return t
		}
	}
	return nil
}

// kind is the same for all ranks that have the same transports to the same peers: by transport a
// row of lacks, -1 if it is not open.
type kind string

func (h *Head) kind(r int) kind {
	var k []byte
	for _, t := range h.transports {
		row := int32(-1)
		if t.open[r] {
			row = t.lacks[r]
		}
		k = binary.LittleEndian.AppendUint32(k, uint32(row))
	}
	return kind(k)
}

// shares returns, by transport, the peers that a rank uses it for, and those that it has none for. The rank
// itself is in the first share, or left with the others.
func (h *Head) shares(r int) (shares [][]span, left []span) {
	left = []span{{0, h.size - 1}}
	for _, t := range h.transports {
		var reached []span
		if t.open[r] {
			reached = common(left, minus(t.everybody(), h.rows.spans(t.lacks[r])))
		}
		shares = append(shares, reached)
		left = minus(left, reached)
	}
	return shares, left
}

// unjoined finds two ranks without a transport between them, preferably two that can open no further one.
func (h *Head) unjoined() (a, b int, found bool) {
	next := make([]int, h.size+1) // by rank: the next that can open no further transport
	next[h.size] = h.size
	for r := h.size - 1; r >= 0; r-- {
		if next[r] = next[r+1]; !h.ranks[r].left {
			next[r] = r
		}
	}
	lonely := map[kind][]span{}
	for i := range h.size {
		k := h.kind(i)
		left, known := lonely[k]
		if !known {
			_, left = h.shares(i)
			lonely[k] = left
		}
		for _, s := range left {
			if s.first >= i {
				break
			}
			a, b, found = s.first, i, true
			if k := next[s.first]; !h.ranks[i].left && k <= s.last && k < i {
				return k, i, true
			}
		}
	}
	return a, b, found
}

// cannot returns the error about two ranks that cannot be connected, with the remedy.
func (h *Head) cannot(a, b int) error {
	var why []string
	for _, name := range h.order {
		why = append(why, name+": "+h.why(name, a, b))
	}
	remedy := "name a transport that reaches all: -rpi " + strings.Join(append(h.order, "tcp"), ",")
	if slices.Contains(h.order, "tcp") {
		remedy = "'gorun info' lists the transports there are"
	}
	return fmt.Errorf("rank %d and rank %d cannot reach each other over -rpi %s (%s): %s",
		a, b, strings.Join(h.order, ","), strings.Join(why, "; "), remedy)
}

// why says why two ranks do not use a transport.
func (h *Head) why(name string, a, b int) string {
	for _, r := range []int{a, b} {
		if text, failed := h.ranks[r].failed[name]; failed {
			return fmt.Sprintf("rank %d cannot use it: %s", r, text)
		}
	}
	t := h.transport(name)
	return h.reasons[max(h.rows.why(t.why[a], b), h.rows.why(t.why[b], a))]
}
