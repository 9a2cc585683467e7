package mpi

import "sync/atomic"

// recentCall is one call as the watch sees it, in one word, because each store
// is part of the price of every collective: from the top
//
//	12 bits call number | 5 kind | 15 root + 1 | 32 length + 2
//
// What needs more bits is compared as far as it is there.
type recentCall struct{ word atomic.Uint64 }

// recentCalls is how many calls are remembered.
const recentCalls = 8

// refusedBytes is, to the watch, the length of a call that was refused for its
// arguments: the ranks that were given good ones wait in it for nothing.
const refusedBytes = -2

const (
	recentSeq   = 1<<12 - 1
	recentRoot  = 1<<15 - 1
	recentBytes = 1<<32 - 1
)

func (r *recentCall) set(seq uint64, k kind, root, bytes int) {
	r.word.Store(seq&recentSeq<<52 | uint64(k)<<47 | uint64(root+1)&recentRoot<<32 | uint64(bytes+2)&recentBytes)
}

// get returns a copy, unless there is none; last is a call number not much
// smaller than that of the call, nor by 4096 larger.
func (r *recentCall) get(last uint64) (call, bool) {
	w := r.word.Load()
	if w == 0 {
		return call{}, false
	}
	seq := last + 2*recentCalls
	seq -= (seq - w>>52) & recentSeq
	root := int64(w>>32&recentRoot) - 1
	bytes := int64(w&recentBytes) - 2
	return call{seq<<8 | w>>47&31, uint64(root), uint64(bytes)}, true
}
