package shm

import "time"

// apart is whether two ranks have no cache in common, at present: the system may move
// them, and a virtual machine's processors are where its host has them. What one has
// written then takes several times as long to get to the other through shared memory,
// but hardly longer by the kernel, which copies once. The receiver sees it: a piece that
// it copies takes 0.7 to 3 us if they have, and 7 if not (EPYC 9004).
type apart struct {
	pieces uint32
	slow   int       // of those that were timed the last ones that took long
	until  time.Time // then it is to be found out again
}

const (
	apartMin   = 128 << 10            // the shortest message that the kernel copies then
	apartPiece = 5 * time.Microsecond // a large chunk
	apartEvery = 16                   // one of so many pieces is timed: to ask for the time takes long as well
	apartSure  = 3                    // in a row: a copy may be interrupted
	apartFor   = 50 * time.Millisecond
)

// timed reports whether this piece of n bytes is to be timed.
func (a *apart) timed(n int) bool {
	a.pieces++
	return a.pieces%apartEvery == 0 && n == largeChunk
}

// took notes what a large chunk took that was copied between two times.
func (a *apart) took(begin, end time.Time) {
	if end.Sub(begin) < apartPiece {
		a.slow = 0
		return
	}
	if a.slow++; a.slow >= apartSure {
		a.slow, a.until = 0, end.Add(apartFor)
	}
}

// far reports whether the peer is, as far as is known.
func (a *apart) far(now time.Time) bool { return now.Before(a.until) }
