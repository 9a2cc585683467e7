//go:build !amd64

package shm

import "sync/atomic"

// storeRelease stores v after everything that was stored before.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
