//go:build linux && !race

package engine

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// canSettle tells whether letting go can do without a barrier. Stores of this machine are seen in
// their order, so a plain store lets go of a lock. The race detector would not recognise it.
const canSettle = true

// letGo clears the lower half of a word by a plain store, and returns what is then in the upper
// half. The compiler moves nothing across an atomic operation.
func letGo(w *atomic.Uint64) uint32 {
	p := (*[2]uint32)(unsafe.Pointer(w))
	p[0] = 0
	return atomic.LoadUint32(&p[1])
}

const (
	sysMembarrier             = 324
	membarrierExpedited       = 1 << 3
	membarrierExpeditedBefore = 1 << 4
)

func announceBarriers() syscall.Errno { return membarrier(membarrierExpeditedBefore) }

func barrier() syscall.Errno { return membarrier(membarrierExpedited) }

func membarrier(command uintptr) syscall.Errno {
	_, _, err := syscall.Syscall(sysMembarrier, command, 0, 0)
	return err
}
