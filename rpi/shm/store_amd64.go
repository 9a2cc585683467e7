package shm

// storeRelease stores v after everything that was stored before. Stores of this
// machine are seen in their order, so it is a plain one, where atomic.Store would
// also wait until it is seen; the compiler moves nothing across a call.
//
//go:noescape
func storeRelease(p *uint64, v uint64)

// storeRelease32 is the same for a shorter word.
//
//go:noescape
func storeRelease32(p *uint32, v uint32)
