package backoff

import "time"

// neighbour finds out that this rank shares its CPU with another process although there is a CPU
// for each rank: a yield then takes as long as the other one runs.
//
// Beside a stranger ranks do not yield. Two ranks of one CPU then find each other asleep with each
// message.
type neighbour struct {
	rows  int       // yields in a row that took long
	slept time.Time // the first of some sleeps
	times int       // how many there were since
	again time.Time // this rank does not move because of them before then
	next  time.Time // this rank does not move before then
	pause time.Duration
}

// Half of all pairs of processes start on one CPU. A message between them takes fifty times as
// long while the system leaves them there: milliseconds (EPYC 9004).
const (
	longYield  = 3 * time.Microsecond // the other process has run: two changes of process
	longYields = 4                    // in a row: a single one may be by chance
	manySleeps = 4                    // within shortSpan: more than a peer without a CPU would make
	shortSpan  = 10 * spinBeside
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// yielded notes that a yield took so long and ended at now. It reports whether this rank should
// move. It does so ever more seldom, as the neighbour may stay.
func (n *neighbour) yielded(took time.Duration, now time.Time) bool {
	if took < longYield {
		n.rows = 0
		return false
	}
	n.rows++
	if n.rows < longYields || now.Before(n.next) {
		return false
	}
	n.pause = min(max(2*n.pause, firstPause), lastPause)
	n.rows, n.next = 0, now.Add(n.pause)
	return true
}

// sleeps notes that this rank is about to sleep, because spinning beside a stranger has not helped.
// It reports whether this rank should move.
func (n *neighbour) sleeps(now time.Time) bool {
	if now.Sub(n.slept) > shortSpan {
		n.slept, n.times = now, 0
	}
	n.times++
	if n.times < manySleeps || now.Before(n.again) {
		return false
	}
	n.times, n.again = 0, now.Add(firstPause)
	return true
}
