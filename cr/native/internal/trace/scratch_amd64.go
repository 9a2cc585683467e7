package trace

import (
	"fmt"
)

// ScratchSize is what injected calls need of the program's memory for their
// results. It lies at a thread's fs_base, where the run-times of Go and C have memory of
// that thread's own, and is put back before any thread runs.
const ScratchSize = 32

// Scratch is a place in the stopped program for the results of system calls.
type Scratch struct {
	m    *Memory
	Addr uint64
	own  [ScratchSize]byte
}

// Borrow keeps what lies at the fs_base of a thread aside; of one that has none, what
// lies below its stack.
func Borrow(m *Memory, r *Regs) (*Scratch, error) {
	addr := r.Fs_base
	if addr == 0 {
		const redZone = 128
		addr = (r.Rsp - redZone - ScratchSize) &^ 15
	}
	s := &Scratch{m: m, Addr: addr}
	if err := m.Peek(s.own[:], addr); err != nil {
		return nil, fmt.Errorf("thread-local memory: %w", err)
	}
	return s, nil
}

// Read reads what a call has put there.
func (s *Scratch) Read(p []byte) error { return s.m.Peek(p, s.Addr) }

// GiveBack puts back what lay there.
func (s *Scratch) GiveBack() error { return s.m.Poke(s.own[:], s.Addr) }
