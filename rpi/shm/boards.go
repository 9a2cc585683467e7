package shm

import (
	"slices"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/internal/system/memcopy"
)

// Boards are for teams, see package shmcoll. They lie between the control part and the rings, at the
// same places in every segment. How much of each is used depends on how many ranks share the
// machine.
//
// The first board is the largest. Most programs need no other, and long messages take fewer turns
// in large pieces. Each board has whole pages, at most:
const (
	boards    = 8
	mostFirst = 130 // two pieces of 256 KB
	mostOther = 18  // two of 32 KB
)

var _ shared.Boards = (*Module)(nil)

// boardRoom returns where board i is among the boards, and how much memory it has.
func boardRoom(i int) (at, size int) {
	if i == 0 {
		return 0, mostFirst * pageSize
	}
	return (mostFirst + (i-1)*mostOther) * pageSize, mostOther * pageSize
}

// boardSizes returns how much of each board is used.
func (g *geometry) boardSizes() []int {
	sizes := slices.Repeat([]int{g.other * pageSize}, boards)
	sizes[0] = g.first * pageSize
	return sizes
}

// board returns board i of a segment.
func (l *layout) board(segment []byte, i int) []byte {
	if segment == nil || uint(i) >= boards {
		return nil
	}
	at, size := boardRoom(i)
	at += l.boards
	return segment[at : at+size : at+size]
}

// Boards returns how many bytes of each board are used.
func (m *Module) Boards() []int { return m.boardSizes }

// Board returns this rank's board i.
func (m *Module) Board(i int) []byte { return m.layout.board(m.mem, i) }

// PeerBoard returns the peer's board i, mapped read-only.
func (m *Module) PeerBoard(peer, i int) []byte {
	if !m.Reaches(peer) || !m.join(peer) {
		return nil
	}
	return m.layout.board(m.peers[peer].data, i)
}

// Copy is copy in the fastest way there is.
func (m *Module) Copy(to, from []byte) int { return memcopy.Bytes(to, from) }

// Ring wakes those peers that sleep.
func (m *Module) Ring(peers []int) {
	for _, peer := range peers {
		if p := &m.peers[peer]; m.join(peer) && atomic.LoadUint32(p.bell)&bellArmed != 0 {
			ring(p.bell)
		}
	}
}

// Asleep reports whether the peer sleeps or is about to.
func (m *Module) Asleep(peer int) bool {
	p := &m.peers[peer]
	return m.join(peer) && atomic.LoadUint32(p.bell)&bellArmed != 0
}

// Ask marks board i of a peer.
func (m *Module) Ask(peer, i int) {
	if p := &m.peers[peer]; m.join(peer) && uint(i) < boards {
		atomic.StoreUint32(p.ctl.asked(i), 1)
	}
}

// Asked reports whether a peer has marked this rank's board i since the last call.
func (m *Module) Asked(i int) bool {
	w := m.ctl.asked(i)
	return atomic.LoadUint32(w) != 0 && atomic.SwapUint32(w, 0) != 0
}
