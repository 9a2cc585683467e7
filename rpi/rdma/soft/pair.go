package soft

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// window is how many packets of a pair may be under way.
const window = 16

// pair is a queue pair.
type pair struct {
	dev    *Device
	of     *domain
	config provider.QueuePairConfig
	number uint32
	cookie uint64
	state  provider.State
	access provider.Access
	peer   peer

	// Requests.
	sends    []*request // posted and not completed
	spare    []*request // to be used again
	held     int        // completed ones whose slots are not free: unsignalled, and no later one is over
	posted   uint64     // number of the next packet
	next     uint64     // next packet to be sent
	una      uint64     // first one not known to be over
	said     uint64     // next one that the peer expects
	due      int64      // when to send again; 0: nothing is under way
	wait     int64
	answers  map[uint64]bool // of reads, that came before their turn
	rejected bool            // the peer was not ready
	refused  uint64          // packet that the peer did not allow, if why is not Success
	why      provider.Status
	sendLine *line

	// What the peer sends.
	takes    *receives
	expected uint64
	message  provider.ReceiveRequest // being filled
	filled   int
	open     bool
	owes     bool // an acknowledgement
	hungry   bool
	takeLine *line
	nak      provider.Status // why the peer's request has failed the pair
	isBusy   bool
}

type peer struct {
	number  uint32
	cookie  uint64
	address []byte
}

// request is one of the send queue, in packets.
type request struct {
	provider.SendRequest
	first, packets uint64
	bytes          int
	copied         []byte // inline
}

// CreateQueuePair makes a pair.
func (o *domain) CreateQueuePair(c provider.QueuePairConfig) (provider.QueuePair, error) {
	d := o.dev
	l := d.info.Limits
	if c.SendDepth > l.SendDepth+1 || c.ReceiveDepth > l.ReceiveDepth || c.Segments > l.Segments || c.Inline > l.Inline {
		return nil, provider.ErrLimit
	}
	for d.number++; d.pairs[d.number] != nil; d.number++ {
	}
	p := &pair{dev: d, of: o, config: c, number: d.number, cookie: d.net.random(), answers: map[uint64]bool{}, sendLine: &line{}, takeLine: &line{}}
	if c.Shared != nil {
		p.takes = c.Shared.(*receives)
	} else {
		p.takes = &receives{of: o, depth: c.ReceiveDepth, segments: c.Segments}
	}
	p.takes.users++
	o.users++
	p.sendQueue().users++
	p.takeQueue().users++
	p.sendQueue().lines = append(p.sendQueue().lines, p.sendLine)
	p.takeQueue().lines = append(p.takeQueue().lines, p.takeLine)
	d.pairs[p.number] = p
	return p, nil
}

func (p *pair) sendQueue() *queue { return p.config.SendQueue.(*queue) }
func (p *pair) takeQueue() *queue { return p.config.ReceiveQueue.(*queue) }

// Number names the pair.
func (p *pair) Number() uint32 { return p.number }

// State is the present one.
func (p *pair) State() provider.State { return p.state }

// Address is number, cookie and the network's address.
func (p *pair) Address() []byte {
	b := binary.LittleEndian.AppendUint32(nil, p.number)
	b = binary.LittleEndian.AppendUint64(b, p.cookie)
	return append(b, p.dev.net.address()...)
}

func parseAddress(b []byte) (p peer, err error) {
	if len(b) < 13 {
		return p, errAddress
	}
	return peer{number: binary.LittleEndian.Uint32(b), cookie: binary.LittleEndian.Uint64(b[4:]), address: slices.Clone(b[12:])}, nil
}

func (p *pair) connected() bool {
	return p.state == provider.ReadyToReceive || p.state == provider.ReadyToSend
}

// Modify changes the state.
func (p *pair) Modify(c provider.Change) error {
	switch {
	case c.To == provider.Failed:
		p.fail(provider.Flushed)
		return nil
	case c.To != p.state+1 || c.To > provider.ReadyToSend:
		return fmt.Errorf("%w: from %d to %d", provider.ErrState, p.state, c.To)
	case c.To == provider.Init:
		p.access = c.Access
	case c.To == provider.ReadyToReceive:
		peer, err := parseAddress(c.Peer)
		if err != nil {
			return err
		}
		p.peer = peer
	}
	p.state = c.To
	return nil
}

// PostReceive appends receives.
func (p *pair) PostReceive(requests []provider.ReceiveRequest) (int, error) {
	if p.config.Shared != nil || p.state == provider.Reset {
		return 0, provider.ErrState
	}
	n, err := p.takes.PostReceive(requests)
	if p.state == provider.Failed {
		p.flushReceives()
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
	if p.state == provider.Failed {
		p.flush(provider.Flushed)
	}
	p.wake()
	p.dev.pump()
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
	case r.Opcode > provider.Read, len(r.Segments) > max(1, p.config.Segments), inline && (bytes > p.config.Inline || r.Opcode == provider.Read):
		return provider.ErrRequest
	}
	var q *request
	if n := len(p.spare); n > 0 {
		q, p.spare = p.spare[n-1], p.spare[:n-1]
	} else {
		q = new(request)
	}
	segments := q.Segments[:0]
	*q = request{SendRequest: *r, first: p.posted, packets: uint64(max(1, (bytes+p.dev.mtu-1)/p.dev.mtu)), bytes: bytes, copied: q.copied[:0]}
	if inline {
		for _, s := range r.Segments {
			q.copied = append(q.copied, s.Data...)
		}
		q.Segments = append(segments, provider.Segment{Data: q.copied})
	} else {
		q.Segments = append(segments, r.Segments...)
	}
	p.posted += q.packets
	p.sends = append(p.sends, q)
	return nil
}

// Close closes the pair. Its completions go with it.
func (p *pair) Close() error {
	d := p.dev
	delete(d.pairs, p.number)
	if p.peer.address != nil {
		d.graves[p.number] = p
	}
	d.busy = slices.DeleteFunc(d.busy, func(b *pair) bool { return b == p })
	p.takes.hungry = slices.DeleteFunc(p.takes.hungry, func(b *pair) bool { return b == p })
	p.of.users--
	p.takes.users--
	for q, l := range map[*line]*queue{p.sendLine: p.sendQueue(), p.takeLine: p.takeQueue()} {
		l.users--
		l.stored -= q.list.Len()
		l.lines = slices.DeleteFunc(l.lines, func(o *line) bool { return o == q })
	}
	if p.connected() {
		d.transmit(p.peer.address, &packet{Kind: gone, To: p.peer.number, From: p.number, Cookie: p.cookie})
	}
	p.state = provider.Failed
	return nil
}

func (p *pair) wake() {
	if !p.isBusy {
		p.isBusy = true
		p.dev.busy = append(p.dev.busy, p)
	}
}

// fail fails the pair: the first request with why, all others with Flushed. The peer is told.
func (p *pair) fail(why provider.Status) {
	if p.state == provider.Failed {
		return
	}
	tell := p.connected()
	p.state = provider.Failed
	p.flush(why)
	p.flushReceives()
	if tell && p.nak == provider.Success {
		p.dev.transmit(p.peer.address, &packet{Kind: gone, To: p.peer.number, From: p.number, Cookie: p.cookie})
	}
}

func (p *pair) flush(why provider.Status) {
	for _, r := range p.sends {
		status := why
		if p.why != provider.Success { // earlier ones may have been done
			status = provider.Flushed
			if p.refused >= r.first && p.refused < r.first+r.packets {
				status = p.why
			}
		}
		p.sendQueue().add(p.sendLine, provider.Completion{ID: r.ID, QueuePair: p.number, Status: status}, true)
		why = provider.Flushed
	}
	p.sends, p.held, p.due = nil, 0, 0
}

func (p *pair) flushReceives() {
	if p.open {
		p.open = false
		p.received(&p.message, provider.Completion{Status: provider.Flushed}, true)
	}
	if p.config.Shared != nil {
		return
	}
	for {
		r, ok := p.takes.take()
		if !ok {
			return
		}
		p.received(&r, provider.Completion{Status: provider.Flushed}, true)
	}
}

// received completes a receive.
func (p *pair) received(r *provider.ReceiveRequest, c provider.Completion, wakes bool) {
	c.ID, c.QueuePair = r.ID, p.number
	p.takes.over(r)
	p.takeQueue().add(p.takeLine, c, wakes)
}
