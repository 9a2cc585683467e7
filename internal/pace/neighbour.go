package pace

import "time"

// neighbour finds out that this rank shares its CPU with another process although there is a CPU
// for each rank: a yield then takes as long as the other one runs.
type neighbour struct {
	rows  int       // yields in a row that took long
	next  time.Time // this rank does not move before then
	pause time.Duration
}

// Half of all pairs of processes start on one CPU. A message between them takes fifty times as
// long while the system leaves them there: milliseconds (EPYC 9004).
const (
	longYield  = 3 * time.Microsecond // the other process has run: two changes of process
	longYields = 4                    // in a row: a single one may be by chance
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// yielded notes that a yield took so long and ended at now. It reports whether this rank should
// move. It does so ever more seldom, as the neighbour may be one that does not go away.
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
