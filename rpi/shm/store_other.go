//go:build !amd64 || race

package shm

import "sync/atomic"

// storeRelease stores v after everything that was stored before.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// storeRelease32 is the same for a shorter word.
func storeRelease32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
