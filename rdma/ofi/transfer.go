package ofi

import (
	"unsafe"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// transfer is bytes that libfabric reads from a peer into segments, piece by piece.
type transfer struct {
	of      *pair
	arrival *arrival // for one of these, or
	request *request // a Read
	pieces  []piece
	next    int // piece to begin
	under   int // way
	bad     bool
	regions []*region // that it reads into
}

type piece struct {
	to           []byte
	desc         uintptr
	address, key uint64
}

// newTransfer begins to read places into segments, which are as long. All were checked.
func (p *pair) newTransfer(places []place, segments []provider.Segment) *transfer {
	t := &transfer{of: p}
	for _, s := range segments {
		if len(s.Data) == 0 {
			continue
		}
		r := p.of.covering(&s)
		if len(places) > 0 {
			t.regions = append(t.regions, r)
		}
		for to := s.Data; len(to) > 0 && len(places) > 0; {
			w := &places[0]
			n := min(uint64(len(to)), w.length)
			t.pieces = append(t.pieces, piece{to[:n], r.mem.desc, w.address, w.key})
			to = to[n:]
			w.address, w.length = w.address+n, w.length-n
			if w.length == 0 {
				places = places[1:]
			}
		}
	}
	p.transfers = append(p.transfers, t)
	p.dev.moving[t] = true
	return t
}

// begin hands pieces to libfabric. It reports whether all are.
func (t *transfer) begin() bool {
	d := t.of.dev
	for ; t.next < len(t.pieces); t.next++ {
		n := len(d.freeReads)
		if n == 0 || t.bad {
			break
		}
		i := d.freeReads[n-1]
		c := &t.pieces[t.next]
		switch d.end.readTo(c.to, c.desc, t.of.peer.number, c.address, c.key, d.context(i)) {
		case taken:
			d.freeReads = d.freeReads[:n-1]
			d.ops[i].transfer = t
			t.under++
			continue
		case broken:
			t.bad = true
			d.lose(t.of.peer)
		}
		break
	}
	if t.bad && t.under == 0 {
		t.end()
	}
	return t.next == len(t.pieces) || t.bad
}

// moved hears that a piece is over.
func (t *transfer) moved(ok bool) {
	t.under--
	t.bad = t.bad || !ok
	if t.under == 0 && (t.bad || t.next == len(t.pieces)) {
		t.end()
	}
	t.of.pump(false)
}

func (t *transfer) end() {
	p := t.of
	delete(p.dev.moving, t)
	for i, o := range p.transfers {
		if o == t {
			p.transfers = append(p.transfers[:i], p.transfers[i+1:]...)
			break
		}
	}
	switch {
	case t.bad:
		p.fail(provider.RetryExceeded, true)
	case t.arrival != nil:
		t.arrival.over = true
	default:
		t.request.answered = true
		p.dones = append(p.dones, t.request.number)
	}
}

// crosses reports whether segments have bytes that the transfer writes.
func (t *transfer) crosses(segments []provider.Segment) bool {
	for i := range t.pieces {
		a := uintptr(unsafe.Pointer(&t.pieces[i].to[0]))
		for _, s := range segments {
			if len(s.Data) == 0 {
				continue
			}
			b := uintptr(unsafe.Pointer(&s.Data[0]))
			if a < b+uintptr(len(s.Data)) && b < a+uintptr(len(t.pieces[i].to)) {
				return true
			}
		}
	}
	return false
}
