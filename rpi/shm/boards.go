package shm

import (
	"sync/atomic"

	"github.com/gorun-mpi/gorun/rpi"
)

// Boards are for teams, see rpi.Engine. They lie between the control part and the
// rings, at the same places in every segment; how much of each is used depends
// on how many ranks share the machine.
const (
	boards   = 8
	maxPiece = 32 << 10
)

var _ rpi.Boards = (*Module)(nil)

func boardStride() int { return pages(rpi.BoardSize(maxPiece)) }

// board returns board i of a segment.
func (l *layout) board(segment []byte, i int) []byte {
	if segment == nil || uint(i) >= boards {
		return nil
	}
	at := l.boards + i*boardStride()
	return segment[at : at+boardStride() : at+boardStride()]
}

// Boards tells how many boards each rank has, and of what size.
func (m *Module) Boards() (n, size int) { return boards, rpi.BoardSize(m.geo.piece) }

// Board returns this rank's board i.
func (m *Module) Board(i int) []byte { return m.layout.board(m.mem, i) }

// PeerBoard returns the peer's board i, which is mapped for reading.
func (m *Module) PeerBoard(peer, i int) []byte {
	if !m.Reaches(peer) {
		return nil
	}
	return m.layout.board(m.peers[peer].data, i)
}

// Ring wakes those of the peers that sleep.
func (m *Module) Ring(peers []int) {
	for _, peer := range peers {
		if p := &m.peers[peer]; p.mapped && atomic.LoadUint32(p.bell)&bellArmed != 0 {
			ring(p.bell)
		}
	}
}

// Asleep reports whether the peer sleeps or is about to.
func (m *Module) Asleep(peer int) bool {
	p := &m.peers[peer]
	return p.mapped && atomic.LoadUint32(p.bell)&bellArmed != 0
}

// Ask marks board i of a peer.
func (m *Module) Ask(peer, i int) {
	if p := &m.peers[peer]; p.mapped && uint(i) < boards {
		atomic.StoreUint32(p.ctl.asked(i), 1)
	}
}

// Asked reports whether a peer has marked this rank's board i since the last call.
func (m *Module) Asked(i int) bool {
	w := m.ctl.asked(i)
	return atomic.LoadUint32(w) != 0 && atomic.SwapUint32(w, 0) != 0
}
