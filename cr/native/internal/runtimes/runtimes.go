// Package runtimes is what images know of programs and of the run-times in them: the
// build id of an executable, and where a run-time keeps the kernel's ids of its threads.
//
//	           knows a thread by                 where
//	goPure     m.procid                          g is the word below fs_base
//	goCgo      m.procid of Go's threads          g is somewhere below fs_base
//	libc       its thread control block          where the kernel is to clear the id at the
//	                                             thread's end (glibc), else where each thread
//	                                             has its own behind fs_base (musl)
//
// No table of versions is needed: each place is found by its content, and taken only if
// it is the one place that all threads agree upon.
package runtimes

import "encoding/binary"

// Memory is that of a process that stands still.
type Memory interface {
	Peek(p []byte, addr uint64) error
}

// Thread is a thread as the kernel knows it.
type Thread struct {
	TID  int    // as the process itself knows it
	FS   uint64 // fs_base
	Tidy uint64 // where the kernel clears the id at its end (set_tid_address), 0: nowhere
}

// Runtime is a run-time in a program.
type Runtime interface {
	// Name is what users call it.
	Name() string
	// Settled tells whether a thread stands where it can go on from under another id:
	// the run-time knows it by its own, or does not know it yet and will ask.
	Settled(m Memory, t Thread) bool
	// Notes gives where the run-time keeps the ids of threads that are settled, 0 for
	// one that it does not know.
	Notes(m Memory, threads []Thread) ([]uint64, error)
}

// Set is what is known of a program: nil where there is no such run-time.
type Set struct {
	Go Runtime // its notes have 8 bytes
	C  Runtime // its notes have 4 bytes
}

// Of tells which run-times are in a program.
func Of(p Program) Set {
	switch {
	case p.BuildID == "":
		return Set{C: libc{}}
	case p.C:
		return Set{Go: &goCgo{tls: p.TLS}, C: libc{}}
	}
	return Set{Go: goPure{}}
}

// Settled tells whether both know the thread.
func (s Set) Settled(m Memory, t Thread) bool {
	return (s.Go == nil || s.Go.Settled(m, t)) && (s.C == nil || s.C.Settled(m, t))
}

var le = binary.LittleEndian

// word reads 8 bytes, 0 where there are none.
func word(m Memory, addr uint64) uint64 {
	var p [8]byte
	if m.Peek(p[:], addr) != nil {
		return 0
	}
	return le.Uint64(p[:])
}
