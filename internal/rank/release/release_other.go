//go:build !amd64 || race

// Package release stores words that are shared with other processes after everything
// that was stored before them.
package release

import "sync/atomic"

// Store stores v after everything that was stored before.
func Store(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// Store32 is the same for a shorter word.
func Store32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
