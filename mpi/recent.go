package mpi

import "sync/atomic"

// recentCall is one call as the watch sees it, in two words, because each store
// is part of the price of every collective:
//
//	what    call number << 8 | kind
//	detail  8 bits of the call number | 20 bits root + 1 | 36 bits length + 2
//
// The bits of the number in detail tell words apart that are not of one call. A
// root or length that needs more bits is compared as far as it is there.
type recentCall struct{ what, detail atomic.Uint64 }

// recentCalls is how many calls are remembered.
const recentCalls = 8

// refusedBytes is, to the watch, the length of a call that was refused for its
// arguments: the ranks that were given good ones wait in it for nothing.
const refusedBytes = -2

const (
	detailRoot  = 1<<20 - 1
	detailBytes = 1<<36 - 1
)

// version tells a call from the one that had its place before it.
func version(seq uint64) uint64 { return seq / recentCalls & 0xff }

func (r *recentCall) set(seq uint64, k kind, root, bytes int) {
	r.detail.Store(version(seq)<<56 | uint64(root+1)&detailRoot<<36 | uint64(bytes+2)&detailBytes)
	r.what.Store(seq<<8 | uint64(k))
}

// get returns a copy, unless there is none or it is being changed.
func (r *recentCall) get() (call, bool) {
	what, detail := r.what.Load(), r.detail.Load()
	if what == 0 || detail>>56 != version(what>>8) || r.what.Load() != what {
		return call{}, false
	}
	root := int64(detail>>36&detailRoot) - 1
	bytes := int64(detail&detailBytes) - 2
	return call{what, uint64(root), uint64(bytes)}, true
}
