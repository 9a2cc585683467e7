package mpi

import (
	"math/bits"
	"sync"
	"unsafe"
)

// bytesOf returns the memory of buf. Element types that elem accepts hold no pointers, so the garbage collector
// need not know what the bytes are.
func bytesOf[T any](buf []T) []byte {
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buf))), len(buf)*int(unsafe.Sizeof(z)))
}

// overlap reports whether two byte slices share memory.
func overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	pa, pb := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return pa < pb+uintptr(len(b)) && pb < pa+uintptr(len(a))
}

// scratch is pooled memory, by powers of two, aligned for any element. The
// words are complex128 so that their alignment is the largest there is.
type scratch struct {
	mem   []complex128
	class int
}

var scratchPools [48]sync.Pool

// borrow returns scratch of at least n bytes; its content is arbitrary.
func borrow(n int) *scratch {
	class := bits.Len(uint(max(n, 64)-1) >> 4)
	if s, ok := scratchPools[class].Get().(*scratch); ok {
		return s
	}
	return &scratch{mem: make([]complex128, 1<<class), class: class}
}

// giveBack ends the use of the scratch; nil is allowed.
func (s *scratch) giveBack() {
	if s != nil {
		scratchPools[s.class].Put(s)
	}
}

func (s *scratch) bytes(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s.mem))), n)
}

// borrowSlice returns scratch seen as n elements of T.
func borrowSlice[T any](n int) ([]T, *scratch) {
	var z T
	s := borrow(n * int(unsafe.Sizeof(z)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(s.mem))), n), s
}

// same reports whether two slices of equal length are the same memory.
func same[T any](a, b []T) bool {
	return len(a) == 0 || unsafe.SliceData(a) == unsafe.SliceData(b)
}

// move is copy, unless both are the same memory.
func move(dst, src []byte) {
	if !same(dst, src) {
		copy(dst, src)
	}
}
