package soft

import "github.com/gorun-mpi/gorun/rpi/rdma/provider"

// pump sends what may be sent. It returns when the pair wants to be asked again, 0 if it has nothing under way.
func (p *pair) pump(now int64) int64 {
	if !p.connected() {
		p.owes = false
		return 0
	}
	if p.owes {
		p.owes = false
		p.tell(provider.Success, false)
	}
	if p.state != provider.ReadyToSend || p.una == p.posted {
		p.due = 0
		return 0
	}
	if p.due != 0 && now >= p.due { // go back
		p.next = p.una
		p.wait = min(2*p.wait, 32*p.dev.net.wait())
		p.rejected = false
		p.due = now + p.wait
	}
	for !p.rejected && p.next < p.posted && p.next < p.una+window && p.state == provider.ReadyToSend {
		p.transmit(p.next)
		p.next++
	}
	if p.due == 0 {
		p.wait = p.dev.net.wait()
		p.due = now + p.wait
	}
	return p.due
}

// transmit sends one packet of the request that has it.
func (p *pair) transmit(number uint64) {
	var r *request
	for _, r = range p.sends {
		if number < r.first+r.packets {
			break
		}
	}
	index := int(number - r.first)
	off := index * p.dev.mtu
	n := min(p.dev.mtu, r.bytes-off)
	d := packet{Kind: data, Opcode: r.Opcode, To: p.peer.number, From: p.number, Cookie: p.peer.cookie, Number: number,
		Address: r.Remote.Address + uint64(off), Key: r.Remote.Key, Imm: r.Immediate, Length: uint32(r.bytes)}
	if index == 0 {
		d.Bits |= first
	}
	if index == int(r.packets)-1 {
		d.Bits |= last
	}
	if r.Flags&provider.Solicited != 0 {
		d.Bits |= solicited
	}
	inline := r.Flags&provider.Inline != 0
	for i := range r.Segments {
		if !inline && !p.of.covers(&r.Segments[i]) {
			if r == p.sends[0] {
				p.fail(provider.ProtectionError)
			} else {
				p.next-- // when those before it are over
				p.rejected = true
			}
			return
		}
	}
	if r.Opcode == provider.Read {
		d.Length = uint32(n)
	} else {
		d.Payload = gather(r.Segments, off, n)
	}
	p.dev.transmit(p.peer.address, &d)
}

// gather returns n bytes from off on.
func gather(segments []provider.Segment, off, n int) []byte {
	var b []byte
	for _, s := range segments {
		if off >= len(s.Data) {
			off -= len(s.Data)
			continue
		}
		piece := s.Data[off:min(len(s.Data), off+n)]
		if len(piece) == n && b == nil {
			return piece
		}
		b = append(b, piece...)
		n -= len(piece)
		off = 0
		if n == 0 {
			break
		}
	}
	return b
}

// scatter puts bytes from off on. It reports whether they fit.
func scatter(segments []provider.Segment, off int, b []byte) bool {
	for _, s := range segments {
		if off >= len(s.Data) {
			off -= len(s.Data)
			continue
		}
		b = b[copy(s.Data[off:], b):]
		off = 0
	}
	return len(b) == 0
}

// acknowledged hears what the peer expects next.
func (p *pair) acknowledged(a *packet) {
	if p.state != provider.ReadyToSend || a.Number > p.posted {
		return
	}
	p.said = max(p.said, a.Number)
	rejected := p.rejected
	p.settle()
	switch {
	case a.Status != provider.Success:
		p.refused, p.why = a.Number, a.Status
		if a.Number == p.una {
			p.fail(a.Status)
			return
		}
	case a.Bits&notReady != 0:
		if a.Number == p.una {
			p.rejected, p.next = true, p.una
		}
	case rejected && a.Number >= p.una:
		p.rejected, p.next = false, p.una
	}
	p.wake()
}

// replied hears an answer to a read.
func (p *pair) replied(a *packet) {
	if p.state != provider.ReadyToSend || a.Number < p.una || a.Number >= p.next || p.answers[a.Number] {
		return
	}
	for _, r := range p.sends {
		if a.Number < r.first || a.Number >= r.first+r.packets {
			continue
		}
		off := int(a.Number-r.first) * p.dev.mtu
		if r.Opcode != provider.Read || len(a.Payload) != min(p.dev.mtu, r.bytes-off) {
			return
		}
		for i := range r.Segments {
			if !p.of.covers(&r.Segments[i]) {
				p.fail(provider.ProtectionError)
				return
			}
		}
		scatter(r.Segments, off, a.Payload)
		p.answers[a.Number] = true
		p.said = max(p.said, a.Number+1)
	}
	p.settle()
	p.wake()
}

// settle moves the first packet not known to be over on, and completes requests.
func (p *pair) settle() {
	moved := false
	for len(p.sends) > 0 && p.una < p.said {
		r := p.sends[0]
		if r.Opcode == provider.Read && !p.answers[p.una] {
			break
		}
		delete(p.answers, p.una)
		p.una++
		moved = true
		if p.una == r.first+r.packets {
			p.complete(r)
		}
	}
	if moved {
		p.next = max(p.next, p.una)
		p.due = 0
	}
}

// free takes back a request that is over.
func (p *pair) free(r *request) {
	clear(r.Segments)
	p.spare = append(p.spare, r)
}

func (p *pair) complete(r *request) {
	p.sends = p.sends[:copy(p.sends, p.sends[1:])]
	defer p.free(r)
	if r.Flags&provider.Signalled == 0 {
		p.held++
		return
	}
	p.held = 0
	c := provider.Completion{ID: r.ID, QueuePair: p.number, Opcode: r.Opcode}
	if r.Opcode == provider.Read {
		c.Bytes = uint32(r.bytes)
	}
	p.sendQueue().add(p.sendLine, c, false)
}
