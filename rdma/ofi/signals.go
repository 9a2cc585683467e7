package ofi

import (
	"syscall"
	"unsafe"
)

// sigaction is the kernel's struct of 64-bit machines.
type sigaction [4]uint64

// keepHandlers notes the handlers of all signals, and returns a function that puts them back: libfabric and libraries that it loads (libpsm2, libinfinipath) take
// signals for themselves, to tell of faults or to remove files. The Go runtime cannot do without its own.
func keepHandlers() (restore func()) {
	var kept [65]sigaction
	for n := range kept {
		handler(n, nil, &kept[n])
	}
	return func() {
		for n := range kept {
			handler(n, &kept[n], nil)
		}
	}
}

// handler is rt_sigaction. It fails for those signals alone that have no handler.
func handler(number int, set, get *sigaction) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(number), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 8, 0, 0)
}
