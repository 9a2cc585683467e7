package self

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size and alignment that the kernel backs with one huge page.
const hugePage = 2 << 20

// arena is memory outside the Go heap that holds a copy while it is written. The garbage collector neither
// scans nor counts it. Huge pages back it where the kernel has them. Without them it is only slower to touch
// first.
//
// When a copy is released its pages are kept, but marked with MADV_FREE: the kernel may take them back at any
// moment when memory is short. Pages that it has not taken need no clearing, so the next copy is as fast as
// memory.
type arena struct {
	whole []byte // as mapped
	mem   []byte // the aligned part
}

func newArena(n int) (*arena, error) {
	n = max(n+hugePage-1, hugePage) &^ (hugePage - 1)
	whole, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("memory for a copy of %d MB: %w", n>>20, err)
	}
	shift := int(-uintptr(unsafe.Pointer(&whole[0])) & (hugePage - 1))
	a := &arena{whole: whole, mem: whole[shift : shift+n]}
	// EINVAL: a kernel without huge pages.
	if err := unix.Madvise(a.mem, unix.MADV_HUGEPAGE); err != nil && err != unix.EINVAL {
		a.unmap()
		return nil, err
	}
	return a, nil
}

// fits tells whether the arena is large enough for n bytes without being
// wastefully large.
func (a *arena) fits(n int) bool {
	return n <= len(a.mem) && (len(a.mem) <= 4*hugePage || n >= len(a.mem)/4)
}

// populate touches the first n bytes.
func (a *arena) populate(n int) error {
	n = min((n+hugePage-1)&^(hugePage-1), len(a.mem))
	err := unix.Madvise(a.mem[:n], unix.MADV_POPULATE_WRITE)
	if err == unix.EINVAL { // before Linux 5.14
		for i := 0; i < n; i += 4096 {
			a.mem[i] = 0
		}
		return nil
	}
	return err
}

func (a *arena) release() {
	// A hint; a kernel that does not know it keeps the pages.
	_ = unix.Madvise(a.mem, unix.MADV_FREE)
}

func (a *arena) unmap() {
	_ = unix.Munmap(a.whole)
	a.whole, a.mem = nil, nil
}
