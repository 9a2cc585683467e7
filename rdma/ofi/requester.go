package ofi

import (
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// request is one of the send queue.
type request struct {
	provider.SendRequest
	number   uint64
	bytes    int
	copied   []byte    // inline
	regions  []*region // that the peer reads
	sent     bool
	replied  bool // a Read: the peer has said where
	answered bool // and the bytes are there
}

// PostReceive appends receives.
func (p *pair) PostReceive(requests []provider.ReceiveRequest) (int, error) {
	if p.config.Shared != nil || p.state == provider.Reset {
		return 0, provider.ErrState
	}
	n, err := p.takes.PostReceive(requests)
	if p.state == provider.Failed {
		p.unflush = true
		p.pump(false)
	}
	return n, err
}

// PostSend appends requests, and sends what the window allows.
func (p *pair) PostSend(requests []provider.SendRequest) (n int, err error) {
	for ; n < len(requests) && err == nil; n++ {
		if err = p.post(&requests[n]); err != nil {
			break
		}
	}
	if p.state == provider.Failed && n > 0 {
		p.unflush = true
	}
	p.pump(false)
	return n, err
}

func (p *pair) post(r *provider.SendRequest) error {
	inline := r.Flags&provider.Inline != 0
	bytes := r.Bytes()
	switch {
	case p.state != provider.ReadyToSend && p.state != provider.Failed:
		return provider.ErrState
	case len(p.sends)+p.held >= p.config.SendDepth:
		return provider.ErrFull
	case r.Opcode > provider.Read, len(r.Segments) > max(1, p.config.Segments), inline && (bytes > p.config.Inline || r.Opcode == provider.Read),
		uint64(bytes) > p.dev.info.Limits.Message:
		return provider.ErrRequest
	}
	var q *request
	if n := len(p.spare); n > 0 {
		q, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		q = new(request)
	}
	segments := q.Segments[:0]
	*q = request{SendRequest: *r, number: p.posted, bytes: bytes, copied: q.copied[:0], regions: q.regions[:0]}
	if inline {
		for _, s := range r.Segments {
			q.copied = append(q.copied, s.Data...)
		}
		q.Segments = append(segments, provider.Segment{Data: q.copied})
	} else {
		q.Segments = append(segments, r.Segments...)
	}
	p.posted++
	p.sends = append(p.sends, q)
	return nil
}

// free takes back a request that is over.
func (p *pair) free(r *request) {
	for _, o := range r.regions {
		o.release(1)
	}
	clear(r.Segments)
	p.spare = append(p.spare, r)
}

// begin sends what the window allows. It reports whether libfabric has taken all of that.
func (p *pair) begin() bool {
	for p.state == provider.ReadyToSend && p.sent < len(p.sends) && p.sent < window {
		r := p.sends[p.sent]
		if r.Flags&provider.Inline == 0 && !p.of.covers(r.Segments) {
			if p.sent == 0 {
				p.fail(provider.ProtectionError, true)
			}
			return true // when those before it are over
		}
		switch p.sendRequest(r) {
		case later:
			return false
		case broken:
			return true
		}
		p.sent++
		r.sent = true
	}
	return true
}

func (p *pair) sendRequest(r *request) outcome {
	p.out = packet{Kind: data, Opcode: r.Opcode, To: p.peerNumber, Cookie: p.peerCookie, Number: r.number, Ack: p.over, Imm: r.Immediate,
		Address: r.Remote.Address, Key: r.Remote.Key, Length: uint32(r.bytes), Places: p.out.Places[:0]}
	if r.Flags&provider.Solicited != 0 {
		p.out.Bits |= solicited
	}
	switch {
	case r.Opcode == provider.Read:
		return p.transmit(nil)
	case r.bytes <= p.dev.packetMax-headerSize-remoteSize:
		return p.transmit(r.Segments)
	}
	p.out.Bits |= apart
	r.regions = r.regions[:0]
	for i := range r.Segments {
		if s := &r.Segments[i]; len(s.Data) > 0 {
			o := p.of.covering(s)
			r.regions = append(r.regions, o)
			p.out.Places = append(p.out.Places, o.place(s.Data))
		}
	}
	out := p.transmit(nil)
	if out != taken {
		r.regions = r.regions[:0]
	}
	for _, o := range r.regions {
		o.users++
	}
	return out
}

// acknowledged hears how many requests are over at the peer.
func (p *pair) acknowledged(n uint64) {
	if n > p.acked && n <= p.posted {
		p.acked = n
	}
}

// settle completes the requests that are over.
func (p *pair) settle() {
	for p.state == provider.ReadyToSend && p.sent > 0 {
		r := p.sends[0]
		if p.why != provider.Success && r.number == p.refusal {
			p.fail(p.why, false)
			return
		}
		if r.number >= p.acked || r.Opcode == provider.Read && !r.answered {
			return
		}
		p.sends = p.sends[:copy(p.sends, p.sends[1:])]
		p.sent--
		if r.Flags&provider.Signalled == 0 {
			p.held++
		} else {
			p.held = 0
			c := provider.Completion{ID: r.ID, QueuePair: p.number, Opcode: r.Opcode}
			if r.Opcode == provider.Read {
				c.Bytes = uint32(r.bytes)
			}
			p.sendQueue().add(c, false)
		}
		p.free(r)
	}
}

// replied hears the answer to a Read.
func (p *pair) replied(d *packet) {
	if p.state != provider.ReadyToSend || p.sent == 0 || d.Number < p.sends[0].number || d.Number-p.sends[0].number >= uint64(p.sent) {
		return
	}
	r := p.sends[d.Number-p.sends[0].number]
	if r.Opcode != provider.Read || r.replied || d.bytes() != r.bytes {
		return
	}
	r.replied = true
	if !p.of.covers(r.Segments) {
		p.refusal, p.why = r.number, provider.ProtectionError
		p.fail(provider.Flushed, true)
		return
	}
	if d.Bits&apart != 0 {
		t := p.newTransfer(d.Places, r.Segments)
		t.request = r
		return // pump begins it
	}
	scatter(r.Segments, d.Payload)
	r.answered = true
}

// refused hears that the peer did not allow a request. Those before it are over, except Reads whose
// bytes are on their way.
func (p *pair) refused(d *packet) {
	if p.why == provider.Success && d.Status != provider.Success {
		p.refusal, p.why = d.Number, d.Status
	}
}

// scatter puts bytes into segments. It reports whether they fit.
func scatter(segments []provider.Segment, b []byte) bool {
	for _, s := range segments {
		b = b[copy(s.Data, b):]
	}
	return len(b) == 0
}
