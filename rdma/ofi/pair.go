package ofi

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// Bounds of a pair.
const (
	window    = 64 // requests that the peer has not said to be over
	together  = 4  // transfers of the peer's requests
	ackBehind = 32 // requests that are over, before that is said in a packet of its own
)

// pair is a queue pair.
type pair struct {
	dev        *Device
	of         *domain
	config     provider.QueuePairConfig
	number     uint32
	cookie     uint64
	state      provider.State
	access     provider.Access
	peer       *peer
	peerNumber uint32
	peerCookie uint64
	isBusy     bool
	closed     bool
	transfers  []*transfer
	out        packet

	// Requests.
	sends    []*request // posted and not over
	spare    []*request
	sent     int    // of sends
	held     int    // over, but their slots are not free: unsignalled, and no later one has completed
	posted   uint64 // number of the next one
	acked    uint64 // number up to which they are over at the peer
	refusal  uint64 // number of the one that the peer refused, if why is not Success
	why      provider.Status
	dones    []uint64 // reads that the peer is to be told to be over
	unflush  bool     // Failed, and requests are yet to be flushed
	first    provider.Status
	tellGone bool

	// What the peer sends.
	takes         *receives
	arrivals      []*arrival // not over
	spareArrivals []*arrival
	started       int    // of arrivals
	next          uint64 // number of the next one to arrive
	early         map[uint64]*packet
	over          uint64 // number up to which they are over
	told          uint64 // that was said
	owes          uint64 // poll of the last one that was over and not said
	granted       map[uint64]*region
	nak           provider.Status // why the peer's request failed, to be told
	nakked        bool
	hungry        bool
}

// CreateQueuePair makes a pair.
func (o *domain) CreateQueuePair(c provider.QueuePairConfig) (provider.QueuePair, error) {
	d := o.dev
	l := d.info.Limits
	if c.SendDepth > l.SendDepth+1 || c.ReceiveDepth > l.ReceiveDepth || c.Segments > l.Segments || c.Inline > l.Inline {
		return nil, provider.ErrLimit
	}
	for d.number++; d.pairs[d.number] != nil || d.graves[d.number] != nil; d.number++ {
	}
	p := &pair{dev: d, of: o, config: c, number: d.number, cookie: random(), early: map[uint64]*packet{}, granted: map[uint64]*region{}}
	if c.Shared != nil {
		p.takes = c.Shared.(*receives)
	} else {
		p.takes = &receives{of: o, depth: c.ReceiveDepth, segments: c.Segments}
	}
	p.takes.users++
	o.users++
	p.sendQueue().users++
	p.takeQueue().users++
	d.pairs[p.number] = p
	return p, nil
}

func (p *pair) sendQueue() *queue { return p.config.SendQueue.(*queue) }
func (p *pair) takeQueue() *queue { return p.config.ReceiveQueue.(*queue) }

// Number names the pair.
func (p *pair) Number() uint32 { return p.number }

// State is the present one.
func (p *pair) State() provider.State { return p.state }

// Address is number, cookie, and three strings: libfabric's provider, the device's pulse and libfabric's address.
func (p *pair) Address() []byte {
	b := binary.LittleEndian.AppendUint32(nil, p.number)
	b = binary.LittleEndian.AppendUint64(b, p.cookie)
	for _, s := range [][]byte{[]byte(p.dev.end.name), p.dev.pulse.name, p.dev.end.address} {
		b = append(b, byte(len(s)))
		b = append(b, s...)
	}
	return b
}

// parseAddress returns number, cookie and the strings.
func parseAddress(b []byte) (number uint32, cookie uint64, s [3][]byte, err error) {
	if len(b) < 15 {
		return 0, 0, s, errAddress
	}
	number, cookie = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint64(b[4:])
	b = b[12:]
	for i := range s {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return 0, 0, s, errAddress
		}
		s[i] = slices.Clone(b[1 : 1+int(b[0])])
		b = b[1+int(b[0]):]
	}
	if len(b) > 0 || len(s[2]) == 0 {
		return 0, 0, s, errAddress
	}
	return number, cookie, s, nil
}

func (p *pair) connected() bool {
	return p.state == provider.ReadyToReceive || p.state == provider.ReadyToSend
}

// waits reports whether the peer has something to do for the pair.
func (p *pair) waits() bool { return p.connected() && (len(p.sends) > 0 || len(p.transfers) > 0) }

// Modify changes the state.
func (p *pair) Modify(c provider.Change) error {
	switch {
	case c.To == provider.Failed:
		p.fail(provider.Flushed, true)
		p.pump(false)
		return nil
	case c.To != p.state+1 || c.To > provider.ReadyToSend:
		return fmt.Errorf("%w: from %d to %d", provider.ErrState, p.state, c.To)
	case c.To == provider.Init:
		p.access = c.Access
	case c.To == provider.ReadyToReceive:
		if err := p.meet(c.Peer); err != nil {
			return err
		}
	}
	p.state = c.To
	p.pump(false)
	return nil
}

func (p *pair) meet(address []byte) error {
	number, cookie, s, err := parseAddress(address)
	if err != nil {
		return err
	}
	if string(s[0]) != p.dev.end.name {
		return fmt.Errorf("%w: it is of libfabric's provider %s, this device of %s", provider.ErrUnreachable, s[0], p.dev.end.name)
	}
	p.peer, err = p.dev.reach(s[2], s[1])
	p.peerNumber, p.peerCookie = number, cookie
	return err
}

// Close closes the pair. Its completions go with it.
func (p *pair) Close() error {
	d := p.dev
	if p.closed {
		return provider.ErrClosed
	}
	p.fail(provider.Flushed, true)
	if err := d.settle("queue pair's memory", func(t *transfer) bool { return t.of == p }); err != nil {
		return err
	}
	p.pump(false)
	p.closed = true
	delete(d.pairs, p.number)
	if p.peer != nil {
		d.graves[p.number] = p
	}
	p.takes.hungry = slices.DeleteFunc(p.takes.hungry, func(b *pair) bool { return b == p })
	p.of.users--
	p.takes.users--
	for _, q := range []*queue{p.sendQueue(), p.takeQueue()} {
		q.users--
		q.forget(p.number)
	}
	return nil
}

// wake has the pair pumped with the next poll.
func (p *pair) wake() {
	if !p.isBusy && !p.dev.closed {
		p.isBusy = true
		p.dev.busy = append(p.dev.busy, p)
	}
}

// pump does what can be done now.
func (p *pair) pump(now bool) {
	if p.dev.closed {
		return
	}
	p.advance()
	waiting := false
	for _, t := range slices.Clone(p.transfers) {
		waiting = !t.begin() || waiting
	}
	p.settle()
	waiting = !p.begin() || waiting
	waiting = !p.tell(now) || waiting
	if p.unflush && len(p.transfers) == 0 {
		p.flush()
	}
	if waiting || p.unflush {
		p.wake()
	}
}

// say sends a packet without bytes. It reports whether it is sent, or need not be any more.
func (p *pair) say(k kind, number uint64, status provider.Status) bool {
	cookie := p.peerCookie
	if k == gone {
		cookie = p.cookie
	}
	p.out = packet{Kind: k, To: p.peerNumber, Cookie: cookie, Number: number, Status: status, Ack: p.over, Places: p.out.Places[:0]}
	return p.transmit(nil) != later
}

// transmit sends p.out, which says what is over.
func (p *pair) transmit(segments []provider.Segment) outcome {
	out := p.dev.transmit(p.peer, &p.out, segments)
	if out == taken {
		p.told = p.over
	}
	return out
}

// tell sends a packet without bytes. It reports whether all is sent.
func (p *pair) tell(now bool) bool {
	if p.peer == nil || p.peer.lost {
		return true
	}
	for len(p.dones) > 0 && p.connected() {
		if !p.say(done, p.dones[0], 0) {
			return false
		}
		p.dones = p.dones[1:]
	}
	if p.nak != provider.Success {
		if !p.say(refuse, p.over, p.nak) {
			return false
		}
		p.nak, p.nakked = provider.Success, true
	}
	if p.tellGone {
		if !p.say(gone, 0, 0) {
			return false
		}
		p.tellGone = false
	}
	if p.told == p.over || !p.connected() {
		return true
	}
	if now || p.owes < p.dev.polls || p.over-p.told >= ackBehind {
		return p.say(ack, 0, 0)
	}
	return false
}

// fail fails the pair: the first request with why, all others with Flushed.
func (p *pair) fail(why provider.Status, tell bool) {
	if p.state == provider.Failed {
		return
	}
	p.tellGone = tell && p.connected() && p.nak == provider.Success
	p.state, p.first, p.unflush = provider.Failed, why, true
	for _, t := range p.transfers {
		t.bad = true
	}
	for n, r := range p.granted {
		r.release(1)
		delete(p.granted, n)
	}
	p.wake()
}

// flush completes all that is posted on a Failed pair, when libfabric does not write to its memory any more.
func (p *pair) flush() {
	p.unflush = false
	why := p.first
	for _, r := range p.sends {
		status := why
		if p.why != provider.Success { // earlier ones may have been done
			status = provider.Flushed
			if r.number == p.refusal {
				status = p.why
			}
		}
		p.sendQueue().add(provider.Completion{ID: r.ID, QueuePair: p.number, Status: status}, true)
		p.free(r)
		why = provider.Flushed
	}
	p.first = provider.Flushed
	p.sends, p.sent, p.held = p.sends[:0], 0, 0
	for _, a := range p.arrivals {
		if a.taken {
			p.received(a, provider.Completion{Status: provider.Flushed}, true)
		}
	}
	p.arrivals, p.started = nil, 0
	for p.config.Shared == nil {
		r, ok := p.takes.take()
		if !ok {
			return
		}
		p.received(&arrival{receive: r}, provider.Completion{Status: provider.Flushed}, true)
	}
}
