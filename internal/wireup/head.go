package wireup

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/oob"
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
	addresses  []map[string][]byte // of this round
	awaited    oob.Kind            // what the ranks send next: Address, Reach, or 0 when they are connected
	heard      []bool              // by rank: it has sent it
	got        int                 // how many have
}

// rank describes one rank.
type rank struct {
	left   bool // it has not opened all transports
	failed map[string]string
}

// transport tells how far one transport reaches.
type transport struct {
	name  string
	fresh bool     // opened in this round
	open  []bool   // by rank
	why   []uint16 // by rank and peer: the reason why the rank does not reach the peer, 0 if it does
	// denied is, by rank and peer, the reason why a parameter cannot be heeded between them; 0 if it can. nil:
	// all can be heeded.
	denied []uint16
}

// New returns the head of a job of so many ranks.
func New(size int) *Head {
	return &Head{
		size: size, ranks: make([]rank, size), reasons: []string{""}, numbers: map[string]uint16{},
		addresses: make([]map[string][]byte, size), awaited: oob.Address, heard: make([]bool, size),
	}
}

// Address takes the addresses of a rank. When all have come, it returns the message for every rank.
func (h *Head) Address(rank int, m *oob.Msg) (*oob.Msg, error) {
	var info oob.AddressInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return nil, fmt.Errorf("rank %d: its address: %v", rank, err)
	}
	if err := h.expects(rank, oob.Address); err != nil {
		return nil, err
	}
	h.addresses[rank] = info.Modules
	if !h.all() {
		return nil, nil
	}
	h.awaited = oob.Reach
	for _, t := range h.transports {
		t.fresh = false
	}
	return message(oob.Peers, h.addresses), nil
}

// expects notes that a rank has sent a message. Each rank sends one of its kind in a round, and never before
// the head has answered the one before. Whoever does otherwise would be counted in another's place.
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

// all counts one more, and reports whether that was the last.
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

// Reach takes how far the transports of a rank reach. When all have told, it returns the message for every
// rank. done reports that this message connects them. An error names two ranks that cannot be connected.
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
		t.fresh, t.open[r] = true, true
	}
	for _, not := range info.Not {
		h.mark(h.transport(not.Transport).why, r, &not)
	}
	for _, d := range info.Denied {
		t := h.transport(d.Transport)
		if t.denied == nil {
			t.denied = make([]uint16, h.size*h.size)
		}
		h.mark(t.denied, r, &d)
	}
}

// mark notes a reason of rank r.
func (h *Head) mark(why []uint16, r int, u *oob.Unreached) {
	number := h.number(u.Why)
	for _, run := range u.Ranks {
		for peer := max(run[0], 0); peer <= min(run[1], h.size-1); peer++ {
			why[r*h.size+peer] = number
		}
	}
}

func (h *Head) transport(name string) *transport {
	for _, t := range h.transports {
		if t.name == name {
			return t
		}
	}
	t := &transport{name: name, open: make([]bool, h.size), why: make([]uint16, h.size*h.size)}
	h.transports = append(h.transports, t)
	slices.SortStableFunc(h.transports, func(a, b *transport) int {
		return slices.Index(h.order, a.name) - slices.Index(h.order, b.name)
	})
	return t
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
	return t.open[a] && t.open[b] && t.why[a*h.size+b] == 0
}

// symmetric returns, by rank, the peers that do not reach it although it reaches them.
func (h *Head) symmetric() map[int][]oob.Unreached {
	forgo := map[int][]oob.Unreached{}
	for _, t := range h.transports {
		if !t.fresh {
			continue
		}
		for a := range h.size {
			var peers []int
			for b := range h.size {
				if a != b && h.reaches(t, a, b) && !h.reaches(t, b, a) {
					peers = append(peers, b)
				}
			}
			if peers != nil {
				forgo[a] = append(forgo[a], oob.Unreached{Transport: t.name, Ranks: oob.RunsOf(peers)})
			}
		}
	}
	return forgo
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

// unjoined finds two ranks without a transport between them, preferably two that can open no further one.
func (h *Head) unjoined() (a, b int, found bool) {
	for i := range h.size {
		for k := range i {
			if h.route(k, i) != nil {
				continue
			}
			a, b, found = k, i, true
			if !h.ranks[k].left && !h.ranks[i].left {
				return a, b, true
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
	return h.reasons[max(t.why[a*h.size+b], t.why[b*h.size+a])]
}
