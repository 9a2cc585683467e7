package head

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
)

// firstWord is how long a start may take before the user is told how far it is. The next report
// comes after twice as long.
const firstWord = time.Second

// narrate tells how far a slow start is, on a terminal or with -v. It says nothing about a program
// that is started and has not called Init: a program may call Init when it likes.
func (inc *incarnation) narrate(after time.Duration) {
	h := inc.h
	if !h.opt.Verbose && !isTerminal(h.opt.Stderr) {
		return
	}
	h.after(after, func() {
		if inc != h.inc {
			return
		}
		var come [joblife.Exited + 1]int // to this phase and no further
		for rank := range h.opt.NP {
			come[h.job.Rank(rank).Phase]++
		}
		inside := come[joblife.Greeted] + come[joblife.Addressed]
		up := come[joblife.Up]
		started := come[joblife.Spawned] + inside + up
		over := come[joblife.Final]+come[joblife.Exited] > 0 || up == h.opt.NP
		if over || started == h.opt.NP && inside+up == 0 {
			return
		}
		h.say("%d of %d ranks are started, %d of them in Init, after %v", started, h.opt.NP, inside+up, time.Since(h.began).Round(100*time.Millisecond))
		inc.narrate(2 * after)
	})
}
