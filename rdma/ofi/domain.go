package ofi

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/system/fifo"
	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// AllocDomain makes a protection domain.
func (d *Device) AllocDomain() (provider.ProtectionDomain, error) {
	if d.closed {
		return nil, provider.ErrClosed
	}
	o := &domain{dev: d, regions: map[uint64]*region{}}
	d.domains[o] = true
	return o, nil
}

type domain struct {
	dev     *Device
	regions map[uint64]*region
	all     []*region // with closed ones that peers may still read
	users   int       // queues and pairs
}

type region struct {
	of     *domain
	buf    []byte
	access provider.Access
	key    uint64
	mem    memory
	users  int // requests of this side that peers read for, and reads that were granted
	closed bool
}

// Register makes memory a region. Its base is 0.
func (o *domain) Register(buf []byte, access provider.Access) (provider.MemoryRegion, error) {
	if err := provider.Mapped(buf); err != nil {
		return nil, err
	}
	mem, err := o.dev.end.register(buf)
	if err != nil {
		return nil, err
	}
	r := &region{of: o, buf: buf, access: access, key: random(), mem: mem}
	o.regions[r.key] = r
	o.all = append(o.all, r)
	return r, nil
}

func (r *region) LocalKey() uint64  { return r.key }
func (r *region) RemoteKey() uint64 { return r.key }
func (r *region) Base() uint64      { return 0 }

// Close waits until libfabric has ended what it reads into the region. Peers that were allowed to read may end that.
func (r *region) Close() error {
	if r.closed {
		return provider.ErrClosed
	}
	delete(r.of.regions, r.key) // no other begins
	err := r.of.dev.settle("memory region", func(t *transfer) bool { return slices.Contains(t.regions, r) })
	if err != nil {
		r.of.regions[r.key] = r
		return err
	}
	r.closed = true
	r.release(0)
	return nil
}

// release takes users away, and ends the registration of a closed region that has none.
func (r *region) release(n int) {
	r.users -= n
	if !r.closed || r.users > 0 {
		return
	}
	r.of.all = slices.DeleteFunc(r.of.all, func(o *region) bool { return o == r })
	r.of.dev.end.unregister(r.mem)
}

// place names bytes of the region to a peer.
func (r *region) place(b []byte) place {
	off := uintptr(unsafe.Pointer(&b[0])) - uintptr(unsafe.Pointer(&r.buf[0]))
	return place{uint64(r.mem.base + off), r.mem.key, uint64(len(b))}
}

// covering returns the region that a segment's key says, nil if that has not its bytes.
func (o *domain) covering(s *provider.Segment) *region {
	r := o.regions[s.Key]
	if r == nil {
		return nil
	}
	at, base := uintptr(unsafe.Pointer(&s.Data[0])), uintptr(unsafe.Pointer(&r.buf[0]))
	if at < base || at+uintptr(len(s.Data)) > base+uintptr(len(r.buf)) {
		return nil
	}
	return r
}

// covers reports whether regions have the bytes of all segments.
func (o *domain) covers(segments []provider.Segment) bool {
	for i := range segments {
		if len(segments[i].Data) > 0 && o.covering(&segments[i]) == nil {
			return false
		}
	}
	return true
}

// remote returns memory that a peer asks for.
func (o *domain) remote(p *packet, want provider.Access) (provider.Segment, *region) {
	r := o.regions[p.Key]
	if r == nil || r.access&want == 0 || p.Address > uint64(len(r.buf)) || uint64(p.Length) > uint64(len(r.buf))-p.Address {
		return provider.Segment{}, nil
	}
	return provider.Segment{Data: r.buf[p.Address:][:p.Length], Key: r.key}, r
}

// CreateSharedReceiveQueue makes a shared queue.
func (o *domain) CreateSharedReceiveQueue(depth, segments int) (provider.SharedReceiveQueue, error) {
	o.users++
	return &receives{of: o, depth: depth, segments: segments}, nil
}

// Close closes the domain. Registrations that peers still use end with the device.
func (o *domain) Close() error {
	if o.users > 0 || len(o.regions) > 0 {
		return fmt.Errorf("%w: %d queues and pairs, %d regions", provider.ErrBusy, o.users, len(o.regions))
	}
	if len(o.all) == 0 {
		delete(o.dev.domains, o)
	}
	return nil
}

// receives is a receive queue, shared or of one pair.
type receives struct {
	of              *domain
	depth, segments int
	list            fifo.List[provider.ReceiveRequest]
	spare           [][]provider.Segment
	hungry          []*pair // wait for a receive
	users           int
}

// PostReceive appends.
func (q *receives) PostReceive(requests []provider.ReceiveRequest) (int, error) {
	n, err := q.append(requests)
	for len(q.hungry) > 0 && q.list.Len() > 0 {
		p := q.hungry[0]
		q.hungry = q.hungry[1:]
		p.hungry = false
		p.pump(false)
	}
	return n, err
}

func (q *receives) append(requests []provider.ReceiveRequest) (int, error) {
	for i := range requests {
		if q.list.Len() >= q.depth {
			return i, provider.ErrFull
		}
		if len(requests[i].Segments) > max(1, q.segments) {
			return i, provider.ErrRequest
		}
		var own []provider.Segment
		if n := len(q.spare); n > 0 {
			own, q.spare = q.spare[n-1], q.spare[:n-1]
		}
		q.list.Append(provider.ReceiveRequest{ID: requests[i].ID, Segments: append(own[:0], requests[i].Segments...)})
	}
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
	}
}
