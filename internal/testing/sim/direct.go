package sim

import (
	"slices"

	"github.com/gorun-mpi/gorun/rpi"
)

var (
	_ rpi.DirectWriter = (*module)(nil)
	_ rpi.DirectReader = fullModule{}
)

// put is a direct write under way: it lands before byte `before` of the wire
// is read.
type put struct {
	key, off uint64
	data     []byte
	before   uint64
}

func (m *module) Publish(_ int, buf []byte) (uint64, bool) {
	if m.f.w.shape.direct == noDirect || m.f.w.rng.IntN(8) == 0 {
		return 0, false
	}
	m.key++
	m.published[m.key] = buf
	return m.key, true
}

func (m *module) Withdraw(_ int, key uint64) { delete(m.published, key) }

func (m *module) Write(peer int, key, off uint64, src []byte) bool {
	w := m.f.w
	c := m.conn(peer)
	if m.gone || w.rng.IntN(8) == 0 || c.state != connOpen || !w.ranks[peer].alive {
		return false
	}
	w.seen.direct++
	if w.shape.direct == copyAtOnce {
		m.f.land(peer, key, off, src)
		return true
	}
	m.wake(c)
	c.puts = append(c.puts, put{key: key, off: off, data: slices.Clone(src), before: c.wr})
	w.seen.puts++
	c.jam = w.rng.IntN(3) == 0
	return true
}

// land is the moment in which a direct write changes the peer's memory.
func (f *fabric) land(peer int, key, off uint64, src []byte) {
	if buf, ok := f.mods[peer].published[key]; ok && f.w.ranks[peer].alive {
		f.w.touched(peer, "a direct write lands")
		copy(buf[off:], src)
	}
}

// reader is the ability to read published buffers.
type reader struct{ m *module }

// get is a direct read under way, which no transport may have.
type get func()

func (reader) DirectMin() int { return 128 }

func (r reader) Read(peer int, key, off uint64, dst []byte) bool {
	m, w := r.m, r.m.f.w
	if m.gone {
		return false
	}
	w.touched(m.rank, "memory of a peer is read")
	if w.rng.IntN(8) == 0 || !w.ranks[peer].alive {
		clear(dst) // it may hold anything
		return false
	}
	buf, ok := m.f.mods[peer].published[key]
	if !ok || off+uint64(len(dst)) > uint64(len(buf)) {
		return false
	}
	w.seen.reads++
	land := func() { copy(dst, buf[off:]) }
	if w.breaks(readsInFlight) {
		m.gets = append(m.gets, land)
	} else {
		land()
	}
	return true
}
