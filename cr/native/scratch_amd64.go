package native

import (
	"fmt"
)

// borrowedSize is what injected calls need of the program's memory for their
// results. It lies at a thread's fs_base, where every Go program has memory of that
// thread's own, and is put back before any thread runs.
const borrowedSize = 32

// scratch is a place in the stopped program for the results of system calls.
type scratch struct {
	m    *memory
	addr uint64
	own  [borrowedSize]byte
}

func borrow(m *memory, addr uint64) (*scratch, error) {
	s := &scratch{m: m, addr: addr}
	if err := m.peek(s.own[:], addr); err != nil {
		return nil, fmt.Errorf("thread-local memory: %w", err)
	}
	return s, nil
}

func (s *scratch) read(p []byte) error { return s.m.peek(p, s.addr) }

func (s *scratch) giveBack() error { return s.m.poke(s.own[:], s.addr) }
