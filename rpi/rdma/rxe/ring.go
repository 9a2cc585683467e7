package rxe

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is a queue that is shared with the driver: a header, and elements of equal size, a power of two of them (struct rxe_queue_buf).
type ring struct {
	memory []byte
	mask   uint32
	shift  uint32
	at     uint32 // the next element of this side
}

// Offsets in the header.
const (
	offShift    = 0
	offMask     = 4
	offProducer = 128
	offConsumer = 256
	offElements = 384
)

// mapRing maps one.
func (d *Device) mapRing(at place) (*ring, error) {
	m, err := unix.Mmap(d.fd, int64(at.Offset), int(at.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, explain(err)
	}
	r := &ring{memory: m}
	r.shift, r.mask = *r.word(offShift), *r.word(offMask)
	if uint64(offElements)+uint64(r.mask+1)<<r.shift > uint64(len(m)) {
		r.unmap()
		return nil, explain(unix.EPROTO)
	}
	return r, nil
}

func (r *ring) unmap() {
	if r != nil && r.memory != nil {
		_ = unix.Munmap(r.memory)
		r.memory = nil
	}
}

func (r *ring) word(off int) *uint32 { return (*uint32)(unsafe.Pointer(&r.memory[off])) }

// element is the next one of this side.
func (r *ring) element() []byte {
	return r.memory[offElements+int(r.at)<<r.shift:][:1<<r.shift]
}

func (r *ring) next() { r.at = (r.at + 1) & r.mask }

// full tells a producer that there is no room.
func (r *ring) full() bool { return (r.at+1)&r.mask == atomic.LoadUint32(r.word(offConsumer))&r.mask }

// publish gives the driver the produced entries.
func (r *ring) publish() { atomic.StoreUint32(r.word(offProducer), r.at) }

// filled tells a consumer how many elements there are.
func (r *ring) filled() uint32 { return (atomic.LoadUint32(r.word(offProducer)) - r.at) & r.mask }

// give gives the consumed entries back to the driver.
func (r *ring) give() { atomic.StoreUint32(r.word(offConsumer), r.at) }
