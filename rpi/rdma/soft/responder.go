package soft

import (
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// tell acknowledges arrived packets.
func (p *pair) tell(status provider.Status, refuse bool) {
	a := packet{Kind: ack, To: p.peer.number, From: p.number, Cookie: p.peer.cookie, Number: p.expected, Status: status}
	if refuse {
		a.Bits = notReady
	}
	p.dev.transmit(p.peer.address, &a)
}

// request takes a packet of the peer.
func (p *pair) request(d *packet) {
	switch {
	case p.state != provider.Failed || p.peer.address == nil:
	case p.nak != provider.Success:
		p.tell(p.nak, false)
	default:
		p.dev.transmit(p.peer.address, &packet{Kind: gone, To: p.peer.number, From: p.number, Cookie: p.cookie})
	}
	if !p.connected() || d.From != p.peer.number || d.Number > p.expected {
		return
	}
	p.owes = true
	p.wake()
	if d.Number < p.expected { // it has come before
		if d.Opcode == provider.Read {
			p.answer(d)
		}
		return
	}
	status, ready := p.take(d)
	switch {
	case !ready:
		p.owes = false
		p.tell(provider.Success, true)
		if !p.hungry {
			p.hungry = true
			p.takes.hungry = append(p.takes.hungry, p)
		}
	case status != provider.Success:
		p.nak = status
		p.tell(status, false)
		p.fail(provider.Flushed)
	default:
		p.expected++
	}
}

// take does what a packet says. ready is false if there is no receive for it.
func (p *pair) take(d *packet) (status provider.Status, ready bool) {
	switch d.Opcode {
	case provider.Read:
		if !p.answer(d) {
			return provider.RemoteAccess, true
		}
		return provider.Success, true
	case provider.Write, provider.WriteImmediate:
		return p.written(d)
	default:
		return p.sent(d)
	}
}

// answer sends the bytes of a read. It reports whether that is allowed.
func (p *pair) answer(d *packet) bool {
	if p.access&provider.RemoteRead == 0 {
		return false
	}
	var bytes []byte
	if d.Length > 0 {
		var ok bool
		if bytes, ok = p.of.remote(d, int(d.Length), provider.RemoteRead); !ok || int(d.Length) > p.dev.mtu {
			return false
		}
	}
	p.dev.transmit(p.peer.address, &packet{Kind: reply, To: p.peer.number, From: p.number, Cookie: p.peer.cookie, Number: d.Number, Payload: bytes})
	return true
}

func (p *pair) written(d *packet) (provider.Status, bool) {
	immediate := d.Opcode == provider.WriteImmediate && d.Bits&last != 0
	if immediate && p.takes.list.Len() == 0 {
		return 0, false
	}
	if p.access&provider.RemoteWrite == 0 { // of no bytes, too, as adapters have it
		return provider.RemoteInvalid, true
	}
	if len(d.Payload) > 0 {
		to, ok := p.of.remote(d, len(d.Payload), provider.RemoteWrite)
		if !ok {
			return provider.RemoteAccess, true
		}
		copy(to, d.Payload)
	}
	if immediate {
		r, _ := p.takes.take() // there is one
		p.received(&r, provider.Completion{Opcode: provider.ReceiveWrite, Bytes: d.Length, Immediate: d.Imm, HasImmediate: true}, d.Bits&solicited != 0)
	}
	return provider.Success, true
}

func (p *pair) sent(d *packet) (provider.Status, bool) {
	if d.Bits&first != 0 {
		r, ok := p.takes.take()
		if !ok {
			return 0, false
		}
		p.message, p.filled, p.open = r, 0, true
	}
	if !p.open {
		return provider.RemoteInvalid, true
	}
	for i := range p.message.Segments {
		if !p.of.covers(&p.message.Segments[i]) {
			return p.spoilt(provider.ProtectionError), true
		}
	}
	if !scatter(p.message.Segments, p.filled, d.Payload) {
		return p.spoilt(provider.LengthError), true
	}
	p.filled += len(d.Payload)
	if d.Bits&last != 0 {
		p.open = false
		c := provider.Completion{Opcode: provider.Receive, Bytes: uint32(p.filled), Immediate: d.Imm, HasImmediate: d.Opcode == provider.SendImmediate}
		if !c.HasImmediate {
			c.Immediate = 0
		}
		p.received(&p.message, c, d.Bits&solicited != 0)
	}
	return provider.Success, true
}

// spoilt ends a receive that the message does not suit, and returns the answer to the sender.
func (p *pair) spoilt(why provider.Status) provider.Status {
	p.open = false
	p.received(&p.message, provider.Completion{Status: why}, true)
	if why == provider.LengthError {
		return provider.RemoteInvalid
	}
	return provider.RemoteFailure
}
