//go:build !race

// Package release stores words that are shared with other processes after everything
// that was stored before them.
package release

import "sync/atomic"

// Store stores v after everything that was stored before. Stores of this machine are
// seen in their order, so it is a plain one, where atomic.Store would also wait until
// it is seen; the compiler moves nothing across an atomic operation: a load of what is
// never written, as one of *p would wait for its line. The race detector does not know
// this.
func Store(p *uint64, v uint64) {
	atomic.LoadUint32(&never)
	*p = v
}

// Store32 is the same for a shorter word.
func Store32(p *uint32, v uint32) {
	atomic.LoadUint32(&never)
	*p = v
}

var never uint32
