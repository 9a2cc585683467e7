package runtimes

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The Go runtime keeps the kernel's id of each thread in the field procid of its
// struct m, to send preemption signals to it; after a restore it must be the new
// id. Where the field lies is found by its content, so that no table of Go
// versions is needed.

// Where the runtime keeps what leads there.
const (
	tlsG   = 8     // without C g is the word below the thread's fs_base
	gM     = 0x30  // of g.m
	mG0    = 0     // of m.g0
	mStart = 0x100 // procid lies within so many bytes of m
)

// ErrProcID is the reason where the field cannot be told.
var ErrProcID = errors.New("the Go runtime's note of a thread's id was not found where it should be")

// procIDOffset finds the one offset at which the start of every thread's m holds
// that thread's id.
func procIDOffset(ms [][]byte, tids []int) (int, error) {
	found := -1
	for off := 0; off+8 <= mStart; off += 8 {
		all := true
		for i, m := range ms {
			if binary.LittleEndian.Uint64(m[off:]) != uint64(tids[i]) {
				all = false
				break
			}
		}
		switch {
		case all && found >= 0:
			return 0, fmt.Errorf("%w: words %#x and %#x both hold it", ErrProcID, found, off)
		case all:
			found = off
		}
	}
	if found < 0 {
		return 0, ErrProcID
	}
	return found, nil
}

// machine finds the runtime's struct m of the thread whose g lies at addr, and reads
// its start.
func machine(m Memory, addr uint64) (uint64, []byte, error) {
	g := word(m, addr)
	if g == 0 {
		return 0, nil, fmt.Errorf("%w: no g at %#x", ErrProcID, addr)
	}
	mach := word(m, g+gM)
	if mach == 0 {
		return 0, nil, fmt.Errorf("%w: no m of the g at %#x", ErrProcID, g)
	}
	p := make([]byte, mStart)
	return mach, p, m.Peek(p, mach)
}

// holds counts the words of p that hold an id.
func holds(p []byte, tid int) (n int) {
	for i := 0; i+8 <= len(p); i += 8 {
		if le.Uint64(p[i:]) == uint64(tid) {
			n++
		}
	}
	return n
}

// goPure is Go without C: every thread is Go's.
type goPure struct{}

func (goPure) Name() string { return "Go" }

// Settled tells whether g, m and m.procid are in place. Until a new thread has set its
// own fs_base, it has that of the thread that made it.
func (goPure) Settled(m Memory, t Thread) bool {
	_, p, err := machine(m, t.FS-tlsG)
	return err == nil && holds(p, t.TID) == 1
}

func (goPure) Notes(m Memory, threads []Thread) ([]uint64, error) {
	all := make([]uint64, len(threads))
	ms := make([][]byte, len(threads))
	tids := make([]int, len(threads))
	for i, t := range threads {
		var err error
		tids[i] = t.TID
		if all[i], ms[i], err = machine(m, t.FS-tlsG); err != nil {
			return nil, fmt.Errorf("%w: thread %d: %w", ErrProcID, t.TID, err)
		}
	}
	off, err := procIDOffset(ms, tids)
	for i := range all {
		all[i] += uint64(off)
	}
	return all, err
}

// goCgo is Go beside C. The executable's thread-local memory lies below fs_base, g
// somewhere in it. A thread of C's has none there, unless it is in a call of Go.
type goCgo struct {
	tls uint64 // size of that memory
	g   uint64 // where g is below fs_base, 0: not found yet
}

func (*goCgo) Name() string { return "Go with cgo" }

// Settled tells whether the thread is none of Go's, or known to it by its id. What a
// thread is called that is just becoming Go's, its m does not say yet.
func (r *goCgo) Settled(m Memory, t Thread) bool {
	at := r.find(m, t)
	if at == 0 {
		return true
	}
	_, p, err := machine(m, at)
	return err != nil || holds(p, t.TID) > 0
}

// find gives the address of the thread's g, 0 if it has none that can be told.
func (r *goCgo) find(m Memory, t Thread) uint64 {
	if r.g != 0 {
		if isG(m, t.FS-r.g) {
			return t.FS - r.g
		}
		return 0
	}
	for off := uint64(8); off <= r.tls; off += 8 {
		if at := t.FS - off; isG(m, at) {
			if _, p, err := machine(m, at); err == nil && holds(p, t.TID) > 0 {
				r.g = off
				return at
			}
		}
	}
	return 0
}

// isG tells whether a g lies at addr whose m has a g0 of the same m.
func isG(m Memory, addr uint64) bool {
	g := word(m, addr)
	if g == 0 || g%8 != 0 {
		return false
	}
	mach := word(m, g+gM)
	if mach == 0 || mach%8 != 0 {
		return false
	}
	g0 := word(m, mach+mG0)
	return g0 != 0 && g0%8 == 0 && word(m, g0+gM) == mach
}

func (r *goCgo) Notes(m Memory, threads []Thread) ([]uint64, error) {
	all := make([]uint64, len(threads))
	var ms [][]byte
	var tids []int
	for i := 0; i < len(threads) && r.g == 0; i++ {
		r.find(m, threads[i])
	}
	for i, t := range threads {
		at := r.find(m, t)
		if at == 0 {
			continue
		}
		mach, p, err := machine(m, at)
		if err != nil {
			return nil, fmt.Errorf("%w: thread %d: %w", ErrProcID, t.TID, err)
		}
		if holds(p, t.TID) == 0 {
			continue // it asks for its id when it goes on
		}
		all[i], ms, tids = mach, append(ms, p), append(tids, t.TID)
	}
	off, err := procIDOffset(ms, tids)
	for i := range all {
		if all[i] != 0 {
			all[i] += uint64(off)
		}
	}
	return all, err
}
