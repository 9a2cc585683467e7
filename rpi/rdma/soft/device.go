package soft

import (
	"errors"
	"maps"
	"math"
	"slices"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/system/fifo"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// network is what carries packets. Packets may be lost, twice, late or overtaken.
type network interface {
	address() []byte
	send(to []byte, b []byte)
	receive(b []byte) (n int, ok bool)
	unreachable() (address []byte, ok bool) // no process is there any more
	now() int64                             // ns, or steps
	wait() int64                            // how long an answer may take
	alarm(at int64)                         // descriptors are to be readable then; 0: never
	descriptors() []int                     // readable when there is something to receive
	late(room int) int                      // how many completions of a queue may be seen now
	pick(n int) int                         // one of n
	random() uint64
	close()
}

// Device is a device of a network.
type Device struct {
	net     network
	info    provider.Info
	mtu     int
	pairs   map[uint32]*pair
	graves  map[uint32]*pair // closed ones: their peers are to hear of it
	busy    []*pair          // have requests, or something to tell
	number  uint32
	armed   int // queues
	domains map[*domain]bool
	queues  map[*queue]bool
	in, out []byte // scratch
	closed  bool
}

func newDevice(net network, info provider.Info, mtu int) *Device {
	info.Manual = true
	info.Limits = provider.Limits{QueuePairs: 1 << 20, SendDepth: 1 << 15, ReceiveDepth: 1 << 15, Completions: 1 << 20, Segments: 32, Inline: 1024,
		Message: 1 << 31, Region: math.MaxInt64}
	return &Device{net: net, info: info, mtu: mtu, pairs: map[uint32]*pair{}, graves: map[uint32]*pair{}, domains: map[*domain]bool{}, queues: map[*queue]bool{},
		number: uint32(net.random()) & 0xffff, in: make([]byte, 1<<16)}
}

// Info tells what the device can do.
func (d *Device) Info() provider.Info { return d.info }

// AllocDomain makes a protection domain.
func (d *Device) AllocDomain() (provider.ProtectionDomain, error) {
	if d.closed {
		return nil, provider.ErrClosed
	}
	o := &domain{dev: d, regions: map[uint64]*region{}}
	d.domains[o] = true
	return o, nil
}

// Close closes the device and what was made of it.
func (d *Device) Close() error {
	if d.closed {
		return provider.ErrClosed
	}
	for q := range d.queues {
		q.release()
	}
	d.closed = true
	d.pairs, d.busy, d.queues, d.domains = nil, nil, nil, nil
	d.net.close()
	return nil
}

// Abandon is Close: descriptors of a restored process are there, and lead nowhere.
func (d *Device) Abandon() { _ = d.Close() } // it is not closed yet

type domain struct {
	dev     *Device
	regions map[uint64]*region
	users   int // queues and pairs
}

type region struct {
	of     *domain
	buf    []byte
	access provider.Access
	key    uint64
}

// Register makes memory a region. Its base is 0.
func (o *domain) Register(buf []byte, access provider.Access) (provider.MemoryRegion, error) {
	if err := provider.Mapped(buf); err != nil {
		return nil, err
	}
	r := &region{of: o, buf: buf, access: access, key: o.dev.net.random()}
	o.regions[r.key] = r
	return r, nil
}

func (r *region) LocalKey() uint64  { return r.key }
func (r *region) RemoteKey() uint64 { return r.key }
func (r *region) Base() uint64      { return 0 }
func (r *region) Close() error {
	delete(r.of.regions, r.key)
	return nil
}

// covers reports whether a region of a segment's key has its bytes.
func (o *domain) covers(s *provider.Segment) bool {
	if len(s.Data) == 0 {
		return true
	}
	r := o.regions[s.Key]
	if r == nil {
		return false
	}
	at, base := uintptr(unsafe.Pointer(&s.Data[0])), uintptr(unsafe.Pointer(&r.buf[0]))
	return at >= base && at+uintptr(len(s.Data)) <= base+uintptr(len(r.buf))
}

// remote returns memory that a peer asks for.
func (o *domain) remote(p *packet, n int, want provider.Access) ([]byte, bool) {
	r := o.regions[p.Key]
	if r == nil || r.access&want == 0 || p.Address > uint64(len(r.buf)) || uint64(n) > uint64(len(r.buf))-p.Address {
		return nil, false
	}
	return r.buf[p.Address:][:n], true
}

func (o *domain) CreateSharedReceiveQueue(depth, segments int) (provider.SharedReceiveQueue, error) {
	o.users++
	return &receives{of: o, depth: depth, segments: segments}, nil
}

// Close closes the domain.
func (o *domain) Close() error {
	if o.users > 0 || len(o.regions) > 0 {
		return provider.ErrBusy
	}
	delete(o.dev.domains, o)
	return nil
}

// receives is a receive queue, shared or of one pair.
type receives struct {
	of              *domain
	depth, segments int
	list            fifo.List[provider.ReceiveRequest]
	spare           [][]provider.Segment // of those that are over
	hungry          []*pair              // have told their peers that they are not ready
	users           int
}

// PostReceive appends.
func (q *receives) PostReceive(requests []provider.ReceiveRequest) (int, error) {
	for i := range requests {
		if q.list.Len() >= q.depth {
			return i, provider.ErrFull
		}
		if len(requests[i].Segments) > q.segments {
			return i, provider.ErrRequest
		}
		var own []provider.Segment
		if n := len(q.spare); n > 0 {
			own, q.spare = q.spare[n-1], q.spare[:n-1]
		}
		q.list.Append(provider.ReceiveRequest{ID: requests[i].ID, Segments: append(own[:0], requests[i].Segments...)})
	}
	for _, p := range q.hungry {
		p.owes = true
		p.hungry = false
		p.wake()
	}
	q.hungry = q.hungry[:0]
	q.of.dev.pump()
	return len(requests), nil
}

// Close closes a shared queue.
func (q *receives) Close() error {
	if q.users > 0 {
		return provider.ErrBusy
	}
	q.of.users--
	return nil
}

func (q *receives) take() (r provider.ReceiveRequest, ok bool) {
	if q.list.Len() == 0 {
		return r, false
	}
	r = q.list.Elements()[0]
	q.list.Drop(1)
	return r, true
}

// over takes back the segments of a receive.
func (q *receives) over(r *provider.ReceiveRequest) {
	if r.Segments != nil {
		clear(r.Segments)
		q.spare = append(q.spare, r.Segments)
		r.Segments = nil
	}
}

// progress receives what has come, and sends what may be sent.
func (d *Device) progress() {
	if d.closed {
		return
	}
	for range 64 {
		n, ok := d.net.receive(d.in)
		if !ok {
			break
		}
		var p packet
		if p.parse(d.in[:n]) == nil {
			d.arrived(&p)
		}
	}
	for {
		address, ok := d.net.unreachable()
		if !ok {
			break
		}
		for _, number := range slices.Sorted(maps.Keys(d.pairs)) {
			p := d.pairs[number]
			if p.connected() && string(p.peer.address) == string(address) {
				p.fail(provider.RetryExceeded)
			}
		}
	}
	d.pump()
}

func (d *Device) arrived(p *packet) {
	q := d.pairs[p.To]
	if q == nil {
		q = d.graves[p.To]
	}
	if p.Kind == gone {
		if q != nil && q.connected() && q.peer.cookie == p.Cookie {
			q.fail(provider.RetryExceeded)
		}
		return
	}
	if q == nil || q.cookie != p.Cookie {
		return // without receiver or sender here
	}
	switch p.Kind {
	case data:
		q.request(p)
	case ack:
		q.acknowledged(p)
	case reply:
		q.replied(p)
	}
}

// pump sends what may be sent, of all pairs that have something.
func (d *Device) pump() {
	now := d.net.now()
	var alarm int64
	left := d.busy[:0]
	for _, p := range d.busy {
		if at := p.pump(now); at != 0 {
			if alarm == 0 || at < alarm {
				alarm = at
			}
			left = append(left, p)
		} else {
			p.isBusy = false
		}
	}
	clear(d.busy[len(left):])
	d.busy = left
	if d.armed > 0 {
		d.net.alarm(alarm)
	}
}

func (d *Device) transmit(to []byte, p *packet) {
	d.out = p.append(d.out[:0])
	d.net.send(to, d.out)
}

var errAddress = errors.New("soft: not an address of this provider")
