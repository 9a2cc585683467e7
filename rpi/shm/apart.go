package shm

import "time"

// apart tells whether a peer and this rank have no cache in common at present. That may change:
// the system moves processes, and a host moves the processors of a virtual machine. Without a
// common cache, shared memory takes several times as long, but a copy by the kernel hardly longer,
// as it copies once. The receiver can see it: copying one piece takes 0.7 to 3 us with a common
// cache, and 7 us without (EPYC 9004).
type apart struct {
	pieces uint32
	slow   int       // how many of the last timed pieces in a row took long
	until  time.Time // the peer counts as apart until then
}

// Of two ranks apart, 256 KB take 30 us by the kernel instead of 41, 1 MB 63 instead of 139, and
// 16 MB 2480 instead of 4125. Of two ranks near it gains nothing (EPYC 9004, medians of 345
// alternating runs).
const (
	apartMin   = 128 << 10            // the shortest message that the kernel copies
	apartPiece = 5 * time.Microsecond // a copy of a large chunk that takes longer is slow
	apartEvery = 16                   // one of so many pieces is timed: reading the clock takes long as well
	apartSure  = 3                    // slow copies in a row: one may have been interrupted
	apartFor   = 50 * time.Millisecond
)

// timed reports whether this piece of n bytes is to be timed.
func (a *apart) timed(n int) bool {
	a.pieces++
	return a.pieces%apartEvery == 0 && n == largeChunk
}

// took records that copying a large chunk took from begin to end.
func (a *apart) took(begin, end time.Time) {
	if end.Sub(begin) < apartPiece {
		a.slow = 0
		return
	}
	if a.slow++; a.slow >= apartSure {
		a.slow, a.until = 0, end.Add(apartFor)
	}
}

// far reports whether the peer is apart, as far as is known.
func (a *apart) far(now time.Time) bool { return now.Before(a.until) }
