package ofi

import (
	"slices"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// arrival is a request of the peer that is not over.
type arrival struct {
	packet
	kept    bool // Payload and Places are its own
	taken   bool
	receive provider.ReceiveRequest
	status  provider.Status
	over    bool
}

// arrived takes a packet of the peer, whose bytes are lent.
func (p *pair) arrived(d *packet) {
	if p.state == provider.Failed {
		if d.Kind == data && !p.nakked && p.peer != nil {
			p.tellGone = true
			p.wake()
		}
		return
	}
	p.acknowledged(d.Ack)
	switch d.Kind {
	case data:
		p.enqueue(d)
	case reply:
		p.replied(d)
	case done:
		if r := p.granted[d.Number]; r != nil {
			r.release(1)
			delete(p.granted, d.Number)
		}
	case refuse:
		p.refused(d)
	}
	p.pump(false)
	for _, a := range p.arrivals {
		a.keep()
	}
}

func (a *arrival) keep() {
	if !a.kept {
		a.kept = true
		a.Payload, a.Places = slices.Clone(a.Payload), slices.Clone(a.Places)
	}
}

// enqueue puts requests in order.
func (p *pair) enqueue(d *packet) {
	if d.Number != p.next {
		if d.Number > p.next && d.Number < p.next+2*window {
			a := &arrival{packet: *d}
			a.keep()
			p.early[d.Number] = &a.packet
		}
		return
	}
	p.arrivals = append(p.arrivals, p.newArrival(d))
	for p.next++; p.early[p.next] != nil; p.next++ {
		p.arrivals = append(p.arrivals, &arrival{packet: *p.early[p.next], kept: true})
		delete(p.early, p.next)
	}
}

// newArrival makes one, of one that is over if there is any.
func (p *pair) newArrival(d *packet) *arrival {
	n := len(p.spareArrivals)
	if n == 0 {
		return &arrival{packet: *d}
	}
	a := p.spareArrivals[n-1]
	p.spareArrivals = p.spareArrivals[:n-1]
	*a = arrival{packet: *d}
	return a
}

// advance begins requests in order, as far as that can be done, and ends them in order.
func (p *pair) advance() {
	for more := true; more && p.connected(); {
		for p.started < len(p.arrivals) && p.start(p.arrivals[p.started]) {
			p.started++
		}
		more = false
		for p.started > 0 && p.arrivals[0].over && p.connected() {
			a := p.arrivals[0]
			p.arrivals = p.arrivals[:copy(p.arrivals, p.arrivals[1:])]
			p.started--
			p.finish(a)
			p.spareArrivals = append(p.spareArrivals, a)
			more = true
		}
	}
}

// start begins a request. It reports false if that has to wait: for a receive, for requests before it, or for libfabric.
func (p *pair) start(a *arrival) bool {
	if len(p.transfers) >= together {
		return false
	}
	switch a.Opcode {
	case provider.Read:
		return a == p.arrivals[0] && p.answer(a)
	case provider.Write, provider.WriteImmediate:
		return p.startWrite(a)
	}
	if !p.take(a) {
		return false
	}
	switch {
	case !p.of.covers(a.receive.Segments):
		a.status = provider.ProtectionError
	case a.bytes() > a.receive.Bytes():
		a.status = provider.LengthError
	default:
		return p.move(a, a.receive.Segments)
	}
	a.over = true
	return true
}

// take gives the request a receive.
func (p *pair) take(a *arrival) bool {
	if a.taken {
		return true
	}
	if a.receive, a.taken = p.takes.take(); !a.taken && !p.hungry {
		p.hungry = true
		p.takes.hungry = append(p.takes.hungry, p)
	}
	return a.taken
}

func (p *pair) startWrite(a *arrival) bool {
	var to [1]provider.Segment
	if a.Length > 0 {
		var r *region
		if to[0], r = p.of.remote(&a.packet, provider.RemoteWrite); r == nil || p.access&provider.RemoteWrite == 0 {
			a.status, a.over = provider.RemoteAccess, true
			return true
		}
	}
	if a.Opcode == provider.WriteImmediate && !p.take(a) {
		return false
	}
	return p.move(a, to[:])
}

// move brings the bytes to where they belong.
func (p *pair) move(a *arrival, to []provider.Segment) bool {
	for _, t := range p.transfers {
		if t.crosses(to) {
			return false
		}
	}
	if a.Bits&apart == 0 {
		scatter(to, a.Payload)
		a.over = true
		return true
	}
	t := p.newTransfer(a.Places, to)
	t.arrival = a
	t.begin()
	return true
}

// answer answers a Read. It reports false if libfabric has no room for that.
func (p *pair) answer(a *arrival) bool {
	p.out = packet{Kind: reply, To: p.peerNumber, Cookie: p.peerCookie, Number: a.Number, Ack: p.over, Places: p.out.Places[:0]}
	if a.Length == 0 {
		a.over = p.transmit(nil) != later
		return a.over
	}
	s, r := p.of.remote(&a.packet, provider.RemoteRead)
	if r == nil || p.access&provider.RemoteRead == 0 {
		a.status, a.over = provider.RemoteAccess, true
		return true
	}
	if int(a.Length) <= p.dev.packetMax-headerSize {
		a.over = p.transmit([]provider.Segment{s}) != later
		return a.over
	}
	p.out.Bits |= apart
	p.out.Places = append(p.out.Places, r.place(s.Data))
	out := p.transmit(nil)
	if out == taken {
		r.users++
		p.granted[a.Number] = r
	}
	a.over = out != later
	return a.over
}

// finish ends a request.
func (p *pair) finish(a *arrival) {
	if a.status != provider.Success {
		p.nak = a.status
		if a.taken {
			p.received(a, provider.Completion{Status: a.status}, true)
			p.nak = provider.RemoteFailure
			if a.status == provider.LengthError {
				p.nak = provider.RemoteInvalid
			}
		}
		p.fail(provider.Flushed, false)
		return
	}
	p.over++
	p.owes = p.dev.polls
	if !a.taken {
		return
	}
	c := provider.Completion{Opcode: provider.Receive, Bytes: uint32(a.bytes())}
	switch a.Opcode {
	case provider.WriteImmediate:
		c.Opcode = provider.ReceiveWrite
		fallthrough
	case provider.SendImmediate:
		c.Immediate, c.HasImmediate = a.Imm, true
	}
	p.received(a, c, a.Bits&solicited != 0)
}

// received completes a receive.
func (p *pair) received(a *arrival, c provider.Completion, wakes bool) {
	c.ID, c.QueuePair = a.receive.ID, p.number
	p.takes.over(&a.receive)
	p.takeQueue().add(c, wakes)
}
