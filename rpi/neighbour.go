package rpi

import "time"

// neighbour finds out that this rank shares its CPU with somebody although there is one
// for each rank: then yielding takes as long as the other runs. Systems start half of
// all pairs of processes so, and leave them for milliseconds, in which a message takes
// fifty times as long.
type neighbour struct {
	rows  int       // yields one after the other that took long
	next  time.Time // before then nothing is done about it
	pause time.Duration
}

const (
	longYield  = 3 * time.Microsecond // a change of process and back
	longYields = 4                    // one may be anybody's
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// yielded notes that yielding took so long, until now. It reports whether this rank
// should move: seldom, and ever more seldom, as the neighbour may be somebody who does
// not go away.
func (n *neighbour) yielded(took time.Duration, now time.Time) bool {
	if took < longYield {
		n.rows = 0
		return false
	}
	if n.rows++; n.rows < longYields || now.Before(n.next) {
		return false
	}
	n.pause = min(max(2*n.pause, firstPause), lastPause)
	n.rows, n.next = 0, now.Add(n.pause)
	return true
}
