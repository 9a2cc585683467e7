package mem

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
)

// Boards are small, so that payloads of several pieces are common.
const (
	boards = 4
	piece  = 4 << 10
)

var _ shared.Boards = (*Module)(nil)

// plates are the boards of a rank.
type plates struct {
	mem   [boards][]uint64
	asked [boards]atomic.Bool
}

// plates returns the rank's boards, which are made when they are first used.
func (m *Module) plates() *plates {
	if p := m.shared.Load(); p != nil {
		return p
	}
	p := new(plates)
	for i := range p.mem {
		p.mem[i] = make([]uint64, shared.BoardSize(piece)/8)
	}
	m.shared.CompareAndSwap(nil, p)
	return m.shared.Load()
}

var sizes = slices.Repeat([]int{shared.BoardSize(piece)}, boards)

// Boards tells that each rank has four boards, for pieces of 4 KB.
func (m *Module) Boards() []int { return sizes }

// Board returns this rank's board i.
func (m *Module) Board(i int) []byte {
	if uint(i) >= boards {
		return nil
	}
	words := m.plates().mem[i]
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
}

// PeerBoard returns the peer's board i.
func (m *Module) PeerBoard(peer, i int) []byte {
	if !m.Reaches(peer) {
		return nil
	}
	return m.fabric.modules[peer].Board(i)
}

// Ring wakes those of the peers that sleep.
func (m *Module) Ring(peers []int) {
	for _, peer := range peers {
		to := m.fabric.modules[peer]
		to.inbox.mu.Lock()
		asleep := to.inbox.armed
		to.inbox.armed = false
		to.inbox.mu.Unlock()
		if asleep {
			to.Wake()
		}
	}
}

// Asleep reports whether the peer sleeps or is about to.
func (m *Module) Asleep(peer int) bool {
	b := &m.fabric.modules[peer].inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.armed
}

// Ask marks a board of the peer.
func (m *Module) Ask(peer, i int) {
	if uint(i) < boards {
		m.fabric.modules[peer].plates().asked[i].Store(true)
	}
}

// Asked reports whether a peer has marked this rank's board i since the last call.
func (m *Module) Asked(i int) bool {
	a := &m.plates().asked[i]
	return a.Load() && a.Swap(false)
}

// Copy is copy.
func (m *Module) Copy(to, from []byte) int { return copy(to, from) }
