package tcp

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Where a peer listens need not be known before this rank first wants to reach it. Then the peer stays idle until the
// answer has come. The answer comes from another goroutine, and Poll takes it.

// answers are those that Poll has not taken.
type answers struct {
	mu  sync.Mutex
	got []answer
	any atomic.Bool
}

type answer struct {
	peer int
	addr []byte
}

// Located implements rpi.Asker.
func (m *Module) Located(peer int, addr []byte) {
	m.answers.mu.Lock()
	m.answers.got = append(m.answers.got, answer{peer, addr})
	m.answers.any.Store(true)
	m.answers.mu.Unlock()
}

// take takes all, for Poll.
func (a *answers) take() []answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.got
	a.got = nil
	a.any.Store(false)
	return got
}

// seek asks for a peer's address, once.
func (m *Module) seek(peer int) {
	if p := m.peer(peer); !p.asked && m.env.Ask != nil {
		p.asked = true
		m.env.Ask(peer)
	}
}

// place records where a peer listens.
func (m *Module) place(peer int, p []byte) error {
	a, err := decodeAddress(p)
	if err != nil {
		return m.naming(peer, err)
	}
	if a.order != nativeOrder {
		return m.naming(peer, errors.New("its machine has another byte order, which a running job cannot mix"))
	}
	m.peer(peer).addr = a
	m.deny(peer)
	return nil
}

// placed takes answers, and connects whom it was waited for.
func (m *Module) placed() {
	for _, a := range m.answers.take() {
		if a.peer < 0 || a.peer >= len(m.peers) || !m.peer(a.peer).asked || m.peer(a.peer).addr.port != 0 {
			continue
		}
		p := m.peer(a.peer)
		err := m.place(a.peer, a.addr)
		if err != nil {
			p.asked = false // a later caller asks again, and gets the reason
		}
		switch {
		case p.state != idle || !p.wanted:
		case err != nil:
			m.give(a.peer, err)
		case !m.quiesced:
			m.dial(a.peer)
		}
	}
}
