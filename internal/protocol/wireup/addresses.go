package wireup

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// addresses holds the ranks' addresses, and which ranks get them.
type addresses struct {
	size  int
	whole int // the most bytes of addresses that every rank is told
	round uint8
	books bool // all ranks read books
	pages []*page
	node  []int32  // by rank
	on    [][]int  // by node: its ranks
	found [][]byte // by node: the answer to a question for one of its ranks; nil: not made yet

	others []byte  // sheets for all ranks, of this round
	local  []*page // of which each node has a sheet of its own
}

// page is the addresses of one transport, by rank.
type page struct {
	transport string
	of        [][]byte
	round     []uint8 // in which the address came; 0: none has
	local     bool    // only ranks of one node use it
	asks      bool    // it asks for an address when it first needs it
}

func newAddresses(size int) addresses {
	a := addresses{size: size, whole: WholeBytes, round: 1, books: true}
	a.place(make([]int32, size))
	return a
}

// WholeBytes is the length up to which ranks are told all addresses at once: those of some 10,000 ranks. In larger
// jobs they ask for them.
const WholeBytes = 64 << 10

// place says on which node each rank is.
func (a *addresses) place(node []int32) {
	a.node, a.on = node, nil
	for r, n := range node {
		for int(n) >= len(a.on) {
			a.on = append(a.on, nil)
		}
		a.on[n] = append(a.on[n], r)
	}
}

// take records the addresses of a rank.
func (a *addresses) take(rank int, info *oob.AddressInfo) {
	a.books = a.books && info.Books
	for name, addr := range info.Modules {
		p := a.page(name)
		p.of[rank], p.round[rank] = addr, a.round
		p.local = p.local && slices.Contains(info.Local, name)
		p.asks = p.asks && slices.Contains(info.Asks, name) && len(addr) > 0
	}
}

func (a *addresses) page(transport string) *page {
	i, found := slices.BinarySearchFunc(a.pages, transport, func(p *page, name string) int { return strings.Compare(p.transport, name) })
	if !found {
		a.pages = slices.Insert(a.pages, i, &page{transport: transport, of: make([][]byte, a.size), round: make([]uint8, a.size), local: true, asks: true})
	}
	return a.pages[i]
}

// seal prepares peers, when all ranks have sent their addresses.
func (a *addresses) seal() {
	a.local, a.others, a.found = nil, nil, make([][]byte, len(a.on))
	for _, p := range a.pages {
		if p.local {
			a.local = append(a.local, p)
		}
	}
	if a.common(false); len(a.others) > a.whole {
		a.common(true)
	}
}

// common encodes the part for all ranks: the sheets of transports between nodes.
func (a *addresses) common(ask bool) {
	a.others = nil
	for _, p := range a.pages {
		s := Sheet{Transport: p.transport}
		switch {
		case p.local:
			continue
		case ask && p.asks:
			s.Asked = p.there(a.round)
		default:
			for r, round := range p.round {
				if round == a.round {
					s.add(r, p.of[r])
				}
			}
		}
		a.others = s.append(a.others)
	}
}

func (s *Sheet) add(rank int, address []byte) {
	s.Ranks, s.Addresses = append(s.Ranks, rank), append(s.Addresses, address)
}

// peers is the message for the ranks of a node.
func (a *addresses) peers(node int) *oob.Msg {
	if !a.books {
		return message(oob.Peers, a.plain())
	}
	data := append(binary.AppendUvarint(nil, uint64(len(a.pages))), a.others...)
	for _, p := range a.local {
		s := Sheet{Transport: p.transport}
		for _, r := range a.on[node] {
			if p.round[r] == a.round {
				s.add(r, p.of[r])
			}
		}
		data = s.append(data)
	}
	return &oob.Msg{Kind: oob.Peers, From: oob.Head, A: oob.PeersBook, Data: data}
}

// there returns the ranks that have sent an address in a round.
func (p *page) there(round uint8) (runs [][2]int) {
	for r, at := range p.round {
		if at != round {
			continue
		}
		if n := len(runs); n > 0 && runs[n-1][1] == r-1 {
			runs[n-1][1] = r
		} else {
			runs = append(runs, [2]int{r, r})
		}
	}
	return runs
}

// plain is the message for ranks of versions before books.
func (a *addresses) plain() []map[string][]byte {
	all := make([]map[string][]byte, a.size)
	for r := range all {
		all[r] = map[string][]byte{}
		for _, p := range a.pages {
			if p.round[r] == a.round {
				all[r][p.transport] = p.of[r]
			}
		}
	}
	return all
}

// locate returns the addresses of a rank and of the others on its node, of transports that ask.
func (a *addresses) locate(rank uint64) ([]byte, error) {
	if rank >= uint64(a.size) || a.found == nil {
		return nil, fmt.Errorf("the address of rank %d of %d was asked for", rank, a.size)
	}
	n := a.node[rank]
	if a.found[n] == nil {
		var b Book
		for _, p := range a.pages {
			if !p.asks || p.local {
				continue
			}
			s := Sheet{Transport: p.transport}
			for _, r := range a.on[n] {
				if p.round[r] > 0 {
					s.add(r, p.of[r])
				}
			}
			b = append(b, s)
		}
		a.found[n] = b.Append(nil)
	}
	return a.found[n], nil
}

// Place says on which node each rank is. It is called before the first Address. Without it all are
// on one.
func (h *Head) Place(node []int32) { h.addresses.place(node) }

// AskFrom sets the bytes of addresses above which ranks ask for them, instead of WholeBytes.
func (h *Head) AskFrom(bytes int) { h.addresses.whole = bytes }

// Address takes the addresses of a rank. done reports that all have come: Peers returns the message
// for each node.
func (h *Head) Address(rank int, m *oob.Msg) (done bool, err error) {
	var info oob.AddressInfo
	if err := json.Unmarshal(m.Data, &info); err != nil {
		return false, fmt.Errorf("rank %d: its address: %v", rank, err)
	}
	if err := h.expects(rank, oob.Address); err != nil {
		return false, err
	}
	h.addresses.take(rank, &info)
	if !h.all() {
		return false, nil
	}
	h.awaited = oob.Reach
	for _, t := range h.transports {
		t.fresh = false
	}
	h.addresses.seal()
	return true, nil
}

// Peers returns the message with the addresses for the ranks of a node, once Address is done.
func (h *Head) Peers(node int) *oob.Msg { return h.addresses.peers(node) }

// Locate answers a rank that asks where another is.
func (h *Head) Locate(m *oob.Msg) (*oob.Msg, error) {
	book, err := h.addresses.locate(m.A)
	return &oob.Msg{Kind: oob.Located, From: oob.Head, A: m.A, Data: book}, err
}
