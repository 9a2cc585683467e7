package shm

import (
	"bytes"
	"math"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slot is a published buffer in the control part of its owner. The word is
//
//	bit  0       published
//	bits 1..31   how many of the peer's writes are under way
//	bits 32..63  generation, also of the key
//
// A writer counts itself in first and out afterwards. So Withdraw knows when no write can land any
// more. Only one peer knows the key of a slot.
type slot struct {
	word uint64
	addr uint64 // in the owner's memory
	len  uint64
	_    [5]uint64
}

const (
	slots         = 128 // of a rank; without a free one a buffer is not published
	slotPublished = 1
	slotWriter    = 2
)

// published is a rank's state of one of its own slots.
type published struct {
	buf  unsafe.Pointer // keeps it where it is
	peer int
}

// directory is a rank's published buffers.
type directory struct {
	of     [slots]published
	free   []uint8
	local  [2]unix.Iovec // scratch of the calls
	remote [2]unix.RemoteIovec
	mark   [markSize]byte
}

func (d *directory) init() {
	*d = directory{free: make([]uint8, slots)}
	for i := range d.free {
		d.free[i] = uint8(slots - 1 - i)
	}
}

// DirectMin is parameter shm.direct. If that is 0, no message is long enough.
func (m *Module) DirectMin() int {
	switch m.params.direct {
	case directNever:
		return math.MaxInt
	case directApart:
		return apartMin
	}
	return m.params.direct
}

// worth reports whether the kernel should copy a message of n bytes to or from the peer.
func (m *Module) worth(peer, n int) bool {
	return n >= m.DirectMin() && (m.params.direct != directApart || m.peers[peer].in.apart.far(m.now()))
}

// Publish makes buf readable and writable for the peer, if that is worth it.
func (m *Module) Publish(peer int, buf []byte) (key uint64, ok bool) {
	d := &m.direct
	if len(buf) == 0 || !m.worth(peer, len(buf)) || len(d.free) == 0 || !m.trusted(peer) {
		return 0, false
	}
	i := d.free[len(d.free)-1]
	d.free = d.free[:len(d.free)-1]
	d.of[i] = published{unsafe.Pointer(unsafe.SliceData(buf)), peer}
	s := m.ctl.slot(int(i))
	s.addr, s.len = uint64(uintptr(d.of[i].buf)), uint64(len(buf))
	gen := atomic.LoadUint64(&s.word)>>32 + 1
	atomic.StoreUint64(&s.word, gen<<32|slotPublished)
	return gen<<32 | uint64(i), true
}

// Withdraw ends Publish. It waits for a write that the peer has under way: that is one copy, and
// it ends if the peer ends.
func (m *Module) Withdraw(peer int, key uint64) {
	i := int(uint32(key))
	if i >= slots || m.direct.of[i].buf == nil {
		return
	}
	s := m.ctl.slot(i)
	atomic.AndUint64(&s.word, ^uint64(slotPublished))
	for spins := 1; uint32(atomic.LoadUint64(&s.word)) >= slotWriter; spins++ {
		if spins%1024 == 0 && !m.alive(peer) {
			break
		}
		m.Yield()
	}
	m.direct.of[i] = published{}
	m.direct.free = append(m.direct.free, uint8(i))
}

// Write copies src into a buffer that the peer has published.
func (m *Module) Write(peer int, key, off uint64, src []byte) bool {
	s, at := m.find(peer, key, off, len(src))
	if s == nil {
		return false
	}
	for {
		w := atomic.LoadUint64(&s.word)
		if w>>32 != key>>32 || w&slotPublished == 0 {
			return false
		}
		if atomic.CompareAndSwapUint64(&s.word, w, w+slotWriter) {
			break
		}
	}
	// The pid of a process that has ended may be another's by now.
	ok := m.marked(peer) && m.transfer(unix.SYS_PROCESS_VM_WRITEV, peer, at, src, false)
	atomic.AddUint64(&s.word, ^uint64(slotWriter-1))
	return ok
}

// Read copies out of a buffer that the peer has published.
func (m *Module) Read(peer int, key, off uint64, dst []byte) bool {
	s, at := m.find(peer, key, off, len(dst))
	return s != nil && m.transfer(unix.SYS_PROCESS_VM_READV, peer, at, dst, true)
}

// find returns the slot of a key and where in the peer's memory the bytes are.
func (m *Module) find(peer int, key, off uint64, n int) (*slot, uintptr) {
	i := int(uint32(key))
	if i >= slots || n == 0 || !m.trusted(peer) {
		return nil, 0
	}
	s := m.peers[peer].ctl.slot(i)
	w := atomic.LoadUint64(&s.word)
	addr, size := s.addr, s.len
	if w>>32 != key>>32 || w&slotPublished == 0 || off > size || uint64(n) > size-off {
		return nil, 0
	}
	return s, uintptr(addr + off)
}

// transfer copies between p and the peer's memory. With check the same call reads the mark of the
// peer's segment, which tells whether it was that process.
func (m *Module) transfer(trap uintptr, peer int, at uintptr, p []byte, check bool) bool {
	d := &m.direct
	pr := &m.peers[peer]
	d.local[0].Base, d.remote[0].Base = unsafe.SliceData(p), at
	d.local[0].SetLen(len(p))
	d.remote[0].Len = len(p)
	n, want := 1, len(p)
	if check {
		d.local[1].Base, d.remote[1].Base = &d.mark[0], pr.base
		d.local[1].SetLen(markSize)
		d.remote[1].Len = markSize
		n, want = 2, want+markSize
	}
	got, errno := processVM(trap, pr.addr.pid, &d.local, &d.remote, n)
	d.local[0].Base = nil // not to keep the user's memory alive
	if forbidden(errno) {
		m.deny(peer, trap, errno)
	}
	return errno == 0 && got == want && (!check || bytes.Equal(d.mark[:], pr.ctl.mem[:markSize]))
}
