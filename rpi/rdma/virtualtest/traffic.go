package virtualtest

import (
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
	"github.com/gorun-mpi/gorun/rpi/rdma/virtual"
)

// pieces cuts bytes of the rank's region into up to three segments.
func (r *rank) pieces(off, n int) []virtual.Segment {
	var list []virtual.Segment
	for len(list) < 2 && n > 1 && r.rng.IntN(3) == 0 {
		k := 1 + r.rng.IntN(n-1)
		list = append(list, virtual.Segment{Region: r.region, Off: off, Len: k})
		off, n = off+k, n-k
	}
	return append(list, virtual.Segment{Region: r.region, Off: off, Len: n})
}

// request posts one or two requests, if there is room.
func (l *link) request() {
	r, w := l.of, l.of.world
	if l.posted+2-l.over > slots || l.sent+1-w.ranks[l.peer].links[r.id].received > slots {
		return
	}
	n := w.rng.IntN(w.Size + 1)
	if w.rng.IntN(2) == 0 {
		n = min(n, w.rng.IntN(65))
	}
	m := message{opcode: provider.Receive, n: n, write: -1}
	var list []virtual.Request
	switch w.rng.IntN(5) {
	case 0:
		list = append(list, l.send(provider.Send, n))
	case 1:
		m.imm, m.hasImm = uint32(l.sent), true
		list = append(list, l.send(provider.SendImmediate, n))
	case 2:
		m.opcode, m.write, m.imm, m.hasImm = provider.ReceiveWrite, n, uint32(l.sent), true
		list = append(list, l.write(provider.WriteImmediate, n))
	case 3: // a message tells of a write
		m.n, m.write = 5, n
		list = append(list, l.write(provider.Write, n))
		list = append(list, l.send(provider.Send, 5))
		if l.posted+2-l.over == slots {
			list[1].Flags |= provider.Signalled
		}
		l.post(list)
		l.messages = append(l.messages, m)
		l.sent++
		return
	case 4:
		l.read(n)
		return
	}
	l.post(list)
	l.messages = append(l.messages, m)
	l.sent++
}

// flags chooses flags of the request that is next.
func (l *link) flags() (f provider.Flags) {
	if l.of.rng.IntN(3) == 0 || l.posted+2-l.over >= slots-1 {
		f |= provider.Signalled
	}
	if l.of.rng.IntN(4) == 0 {
		f |= provider.Solicited
	}
	return f
}

// send is a message with bytes of its number.
func (l *link) send(op provider.Opcode, n int) virtual.Request {
	r := l.of
	q := virtual.Request{Opcode: op, Flags: l.flags(), Immediate: uint32(l.sent)}
	if n <= 64 && r.rng.IntN(2) == 0 {
		q.Flags |= provider.Inline
		q.Data = make([]byte, n)
		fill(q.Data, r.id, l.peer, l.sent)
		return q
	}
	slot := int(l.sent % slots) // a message's slot is free: that of slots before it was received
	fill(r.buffer(outgoing, l.peer, slot, n), r.id, l.peer, l.sent)
	q.Segments = r.pieces(r.at(outgoing, l.peer, slot), n)
	return q
}

// write writes bytes of the next message's number to the peer.
func (l *link) write(op provider.Opcode, n int) virtual.Request {
	r := l.of
	peer, slot := r.ranks[l.peer], int(l.sent%slots)
	q := virtual.Request{Opcode: op, Flags: l.flags(), Immediate: uint32(l.sent), Remote: peer.remote, Off: uint64(peer.at(written, r.id, slot))}
	if n <= 64 && r.rng.IntN(2) == 0 {
		q.Flags |= provider.Inline
		q.Data = make([]byte, n)
		fill(q.Data, r.id, l.peer, l.sent)
		return q
	}
	fill(r.buffer(source, l.peer, slot, n), r.id, l.peer, l.sent)
	q.Segments = r.pieces(r.at(source, l.peer, slot), n)
	return q
}

// read reads one of the peer's constants.
func (l *link) read(n int) {
	r := l.of
	peer, from := r.ranks[l.peer], r.rng.IntN(slots)
	q := virtual.Request{Opcode: provider.Read, Flags: provider.Signalled, Remote: peer.remote, Off: uint64(peer.at(constant, r.id, from)),
		Segments: r.pieces(r.at(fetched, l.peer, int(l.posted%slots)), n)}
	l.post([]virtual.Request{q})
	l.promised[len(l.promised)-1].from = from
}

// post posts requests, and notes which completions are to come.
func (l *link) post(list []virtual.Request) {
	for i := range list {
		q := &list[i]
		q.ID = l.posted
		n := 0
		for _, s := range q.Segments {
			n += s.Len
		}
		if q.Flags&provider.Signalled != 0 {
			l.promised = append(l.promised, promise{id: q.ID, opcode: q.Opcode, bytes: n})
		}
		l.posted++
	}
	_, err := l.of.dev.Send(l.pair, list)
	l.of.check(err)
}

// receive posts a receive, if there is room.
func (l *link) receive() {
	r := l.of
	to, peer, free := l.pair, l.peer, &l.free
	if r.shared != 0 {
		to, peer, free = r.shared, r.id, &r.free
	}
	if len(*free) == 0 {
		return
	}
	slot := (*free)[0]
	*free = (*free)[1:]
	_, err := r.dev.Receive(to, []virtual.Receive{{ID: uint64(slot), Segments: r.pieces(r.at(incoming, peer, slot), r.Size)}})
	r.check(err)
}

// poll takes completions.
func (r *rank) poll() {
	var buf [5]virtual.Completion
	n, err := r.dev.Poll(r.queue, buf[:1+r.rng.IntN(len(buf))])
	r.check(err)
	for i := range n {
		c := &buf[i]
		for _, l := range r.links {
			if l != nil && l.pair == c.Pair {
				l.completed(c)
			}
		}
	}
}

func (l *link) completed(c *virtual.Completion) {
	r := l.of
	if c.Status != provider.Success {
		r.fail("rank %d, peer %d: %s %d: %s", r.id, l.peer, c.Opcode, c.ID, c.Status)
	}
	if c.Opcode >= provider.Receive {
		l.taken(c)
		return
	}
	if len(l.promised) == 0 || l.promised[0].id != c.ID || l.promised[0].opcode != c.Opcode {
		r.fail("rank %d, peer %d: completion %+v, expected %+v", r.id, l.peer, *c, l.promised)
	}
	p := l.promised[0]
	l.promised = l.promised[1:]
	l.over = p.id + 1
	if p.opcode == provider.Read {
		want := r.ranks[l.peer].buffer(constant, r.id, p.from, p.bytes)
		if got := r.buffer(fetched, l.peer, int(p.id%slots), p.bytes); c.Bytes != p.bytes || string(got) != string(want) {
			r.fail("rank %d, peer %d: read %d: wrong bytes (%d of %d)", r.id, l.peer, p.id, c.Bytes, p.bytes)
		}
	}
}

// taken checks a message.
func (l *link) taken(c *virtual.Completion) {
	r := l.of
	from := r.ranks[l.peer].links[r.id]
	if len(from.messages) == 0 {
		r.fail("rank %d has a message of rank %d that was not sent: %+v", r.id, l.peer, *c)
	}
	m := from.messages[0]
	from.messages = from.messages[1:]
	if c.Opcode != m.opcode || c.Bytes != m.n || c.HasImmediate != m.hasImm || c.Immediate != m.imm {
		r.fail("message %d of rank %d to %d: %+v, expected %+v", l.received, l.peer, r.id, *c, m)
	}
	slot, peer, free := int(c.ID), l.peer, &l.free
	if r.shared != 0 {
		peer, free = r.id, &r.free
	}
	if m.opcode == provider.Receive {
		r.verify(r.buffer(incoming, peer, slot, m.n), l.peer, r.id, l.received, "message")
	}
	if m.write >= 0 {
		r.verify(r.buffer(written, l.peer, int(l.received%slots), m.write), l.peer, r.id, l.received, "write")
	}
	*free = append(*free, slot)
	l.received++
}
