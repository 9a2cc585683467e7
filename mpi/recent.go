package mpi

import "sync/atomic"

// recentCall is one call as the watch sees it. It is one word, because each store is part of the price of every
// collective. From the top:
//
//	10 bits call number | 7 kind | 15 root + 1 | 32 length + 2
//
// Of a number that needs more bits, only those that fit are compared.
type recentCall struct{ word atomic.Uint64 }

// recentCalls is how many calls are remembered.
const recentCalls = 8

// refusedBytes is the length that stands for a call refused for its arguments. Ranks that were given good
// arguments wait in that call in vain.
const refusedBytes = -2

// freedBytes is the length that stands for no call, as the communicator was freed. It is reported, and never kept here.
const freedBytes = -3

const (
	recentSeq   = 1<<10 - 1
	recentKind  = 1<<7 - 1
	recentRoot  = 1<<15 - 1
	recentBytes = 1<<32 - 1
)

// Roots that a call on an intercommunicator names. Ranks of large groups may have the same remainder.
const (
	recentGroup = recentRoot - 16
	recentSelf  = recentRoot - 2 // Root
	recentOther = recentRoot - 3 // ProcNull
)

// acrossRoot returns the root of a call on an intercommunicator as it is kept here.
func acrossRoot(root int) int {
	switch {
	case root == Root:
		return recentSelf
	case root == ProcNull:
		return recentOther
	case root >= 0:
		return root % recentGroup
	}
	return noRoot
}

func (r *recentCall) set(seq uint64, k kind, root, bytes int) {
	r.word.Store(seq&recentSeq<<54 | uint64(k)<<47 | uint64(root+1)&recentRoot<<32 | uint64(bytes+2)&recentBytes)
}

// get returns a copy of the call, if there is one. last is the number of a call begun at about the same time:
// it is at most a little smaller than the call's own number, and less than 1024 larger.
func (r *recentCall) get(last uint64) (call, bool) {
	w := r.word.Load()
	if w == 0 {
		return call{}, false
	}
	seq := last + 2*recentCalls
	seq -= (seq - w>>54) & recentSeq
	root := int64(w>>32&recentRoot) - 1
	bytes := int64(w&recentBytes) - 2
	return call{seq<<8 | w>>47&recentKind, uint64(root), uint64(bytes)}, true
}
