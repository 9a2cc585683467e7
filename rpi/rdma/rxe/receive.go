package rxe

import (
	"encoding/binary"
	"unsafe"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

// receives is a receive queue, of a pair or shared. Requests in the ring are named by slots.
type receives struct {
	dev      *Device
	handle   uint32
	ring     *ring
	segments int
	ids      []uint64 // of the program, by slot
	keys     []uint32 // of segments, by slot
	free     []uint64
	used     []bool
}

// receiveMark tells receives from sends in completions.
const receiveMark = 1 << 63

// CreateSharedReceiveQueue makes one.
func (o *domain) CreateSharedReceiveQueue(depth, segments int) (provider.SharedReceiveQueue, error) {
	d := o.dev
	if depth > d.info.Limits.ReceiveDepth || segments > d.info.Limits.Segments {
		return nil, provider.ErrLimit
	}
	var a sharedAnswer
	if err := d.command(cmdCreateShared, sharedArgs{Domain: o.handle, Depth: uint32(depth), Segments: uint32(segments)}, &a); err != nil {
		return nil, err
	}
	r := newReceives(d, depth, segments)
	r.handle = a.Handle
	var err error
	if r.ring, err = d.mapRing(a.Ring); err != nil {
		_ = d.command(cmdDestroyShared, doomed{Handle: a.Handle}, new(uint32))
		return nil, err
	}
	d.rings = append(d.rings, r.ring)
	return r, nil
}

func newReceives(d *Device, depth, segments int) *receives {
	r := &receives{dev: d, segments: max(1, segments), ids: make([]uint64, depth), used: make([]bool, depth)}
	r.keys = make([]uint32, depth*r.segments)
	for i := range depth {
		r.free = append(r.free, uint64(i))
	}
	return r
}

// Offsets in a receive, struct rxe_recv_wqe, and in what both kinds of requests have, struct rxe_dma_info.
const (
	recvID  = 0
	recvDMA = 16

	dmaLength   = 0
	dmaLeft     = 4
	dmaCurrent  = 8
	dmaCount    = 12
	dmaOffset   = 16
	dmaSegments = 24

	segmentSize = 16
)

// PostReceive appends receives.
func (r *receives) PostReceive(list []provider.ReceiveRequest) (n int, err error) {
	if r.dev.closed {
		return 0, provider.ErrClosed
	}
	for ; n < len(list) && err == nil; n++ {
		if err = r.post(&list[n]); err != nil {
			break
		}
	}
	r.ring.publish()
	return n, err
}

func (r *receives) post(q *provider.ReceiveRequest) error {
	switch {
	case len(q.Segments) > r.segments:
		return provider.ErrRequest
	case len(r.free) == 0 || r.ring.full():
		return provider.ErrFull
	}
	slot := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	r.ids[slot], r.used[slot] = q.ID, true
	keys := r.keys[int(slot)*r.segments:][:r.segments]
	clear(keys)
	for i, s := range q.Segments {
		if len(s.Data) > 0 {
			keys[i] = uint32(s.Key)
		}
	}
	e := r.ring.element()
	binary.NativeEndian.PutUint64(e[recvID:], slot|receiveMark)
	describe(e[recvDMA:], q.Segments)
	r.ring.next()
	return nil
}

// covered reports whether the keys of a receive are those of regions that there are.
func (r *receives) covered(slot uint64) bool {
	if slot >= uint64(len(r.ids)) {
		return false
	}
	for _, key := range r.keys[int(slot)*r.segments:][:r.segments] {
		if key != 0 && !r.dev.keys[key] {
			return false
		}
	}
	return true
}

// taken tells of which receive a completion is.
func (r *receives) taken(slot uint64, c *provider.Completion) bool {
	if slot >= uint64(len(r.ids)) || !r.used[slot] {
		return false
	}
	c.ID, r.used[slot] = r.ids[slot], false
	r.free = append(r.free, slot)
	return true
}

// Close destroys a shared queue.
func (r *receives) Close() error {
	if err := r.dev.command(cmdDestroyShared, doomed{Handle: r.handle}, new(uint32)); err != nil {
		return err
	}
	r.dev.drop(r.ring)
	return nil
}

// describe writes what a request moves. Empty segments are left out.
func describe(e []byte, segments []provider.Segment) {
	ne := binary.NativeEndian
	length, count := 0, 0
	for _, s := range segments {
		if len(s.Data) == 0 {
			continue
		}
		at := e[dmaSegments+count*segmentSize:]
		ne.PutUint64(at, uint64(uintptr(unsafe.Pointer(&s.Data[0]))))
		ne.PutUint32(at[8:], uint32(len(s.Data)))
		ne.PutUint32(at[12:], uint32(s.Key))
		length += len(s.Data)
		count++
	}
	head(e, length, count)
}

func head(e []byte, length, count int) {
	ne := binary.NativeEndian
	ne.PutUint32(e[dmaLength:], uint32(length))
	ne.PutUint32(e[dmaLeft:], uint32(length))
	ne.PutUint32(e[dmaCurrent:], 0)
	ne.PutUint32(e[dmaCount:], uint32(count))
	ne.PutUint32(e[dmaOffset:], 0)
}
