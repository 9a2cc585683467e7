package shm

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// roundEvery is how long a rank sleeps undisturbed before it checks whether its peers still
// live. What started the ranks knows sooner, as a rule. Tests set another time.
var roundEvery = time.Second

// round checks whether the peers still live.
func (m *Module) round() (found bool) {
	m.late.Store(false)
	for i := range m.peers {
		if p := &m.peers[i]; p.mapped && !p.down && p.end == nil && !m.alive(i) {
			m.ending(i, ErrDied)
			found = true
		}
	}
	return found
}

// alive reports whether the peer's process is there. It opens no descriptor: a process that holds
// descriptors of other processes could not be imaged.
func (m *Module) alive(peer int) bool {
	switch {
	case m.trusted(peer) && m.marked(peer), atomic.LoadUint64(m.ctl.door(peer))&doorClosed != 0:
		return true
	case m.trusted(peer): // gone; where the look is denied, the peer is not trusted any more
		return false
	}
	return unix.Kill(m.peers[peer].addr.pid, 0) != unix.ESRCH
}

// ending records that nothing more will come from a peer. Its ring is read to the end first.
func (m *Module) ending(peer int, why error) {
	p := &m.peers[peer]
	if p.end == nil {
		p.end = why
		m.leaving = append(m.leaving, peer)
	}
}

// partings gives up the peers that have left and of which nothing is left to read.
func (m *Module) partings() (moved bool) {
	left := m.leaving[:0]
	for _, peer := range m.leaving {
		p := &m.peers[peer]
		switch {
		case p.down:
		case p.in.ready():
			left = append(left, peer)
		default:
			m.fail(peer, p.end)
			moved = true
		}
	}
	m.leaving = left
	return moved
}
