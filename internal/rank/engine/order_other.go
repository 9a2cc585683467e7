//go:build !amd64 || !linux || race

package engine

import (
	"sync/atomic"
	"syscall"
)

const canSettle = false

func letGo(*atomic.Uint64) uint32 { return 0 }

func announceBarriers() syscall.Errno { return syscall.ENOSYS }

func barrier() syscall.Errno { return syscall.ENOSYS }
