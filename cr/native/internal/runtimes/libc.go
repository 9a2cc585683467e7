package runtimes

import (
	"errors"
	"fmt"
)

// libc is C's run-time: it notes the id of a thread in its thread control block, where
// fs_base points.
//
// glibc has the kernel write the id there when the thread begins, and clear it when it
// ends: that address is the place. musl has the kernel clear a lock of its own, the same
// for all threads. The place is then where each thread has its own id behind fs_base,
// if there is exactly one such.
type libc struct{}

// tcbSize is within how many bytes from fs_base on the id lies.
const tcbSize = 0x800

// ErrLibC is the reason where the place cannot be told.
var ErrLibC = errors.New("the C library's note of a thread's id was not found where it should be")

func (libc) Name() string { return "C" }

// Settled: the kernel itself has written id and fs_base before the first instruction.
func (libc) Settled(Memory, Thread) bool { return true }

func (libc) Notes(m Memory, threads []Thread) ([]uint64, error) {
	all := make([]uint64, len(threads))
	byKernel := true
	for i, t := range threads {
		var p [4]byte
		if t.Tidy == 0 || m.Peek(p[:], t.Tidy) != nil || int(le.Uint32(p[:])) != t.TID {
			byKernel = false
			break
		}
		all[i] = t.Tidy
	}
	if byKernel {
		return all, nil
	}
	off, err := commonOffset(m, threads)
	for i, t := range threads {
		all[i] = t.FS + off
	}
	return all, err
}

// commonOffset finds the one distance from fs_base at which every thread has its id.
func commonOffset(m Memory, threads []Thread) (uint64, error) {
	var candidates []uint64
	for i, t := range threads {
		p := make([]byte, tcbSize)
		if t.FS == 0 || m.Peek(p, t.FS) != nil {
			return 0, fmt.Errorf("%w: thread %d has no memory of its own", ErrLibC, t.TID)
		}
		var left []uint64
		for off := uint64(0); off < tcbSize; off += 4 {
			if int(le.Uint32(p[off:])) == t.TID {
				left = append(left, off)
			}
		}
		if i > 0 {
			left = common(candidates, left)
		}
		candidates = left
	}
	if len(candidates) != 1 {
		return 0, fmt.Errorf("%w: it may be at %d places", ErrLibC, len(candidates))
	}
	return candidates[0], nil
}

// common gives what is in both of two sorted lists.
func common(a, b []uint64) (both []uint64) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			both = append(both, a[0])
			a, b = a[1:], b[1:]
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return both
}
