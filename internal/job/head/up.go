package head

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
)

// Commands that wait for a job (-jobid-file, gorun -detach) are told when it is up: when all ranks
// have come through Init. A program that never calls Init is up when all its ranks run. It is
// recognised by none of its ranks having called Init for a while.

// initWithin is how long a program may take to call Init.
const initWithin = time.Second

// tellUp reports that the job is up: once to those that wait, and in each life to the file.
func (h *head) tellUp() error {
	err := h.writeJobID(h.id + "\n")
	if err == nil && !h.up && h.opt.Up != nil {
		h.opt.Up(h.id)
	}
	h.up = true
	return err
}

// foreign reports that a program is up that does not call Init.
func (inc *incarnation) foreign() {
	h := inc.h
	h.after(initWithin, func() {
		if inc != h.inc || h.up {
			return
		}
		runs := 0
		for rank := range h.opt.NP {
			switch h.job.Rank(rank).Phase {
			case joblife.Spawned, joblife.Exited:
				runs++
			}
		}
		if runs < h.opt.NP {
			inc.foreign()
			return
		}
		if err := h.tellUp(); err != nil {
			inc.fail(h.verdictOf(err))
		}
	})
}

// ended answers those that still wait when a job has ended before it was up. A reader of the file
// gets its id, and so does gorun -detach if it has ended well.
func (h *head) ended() error {
	if h.up {
		return nil
	}
	if h.result.Code != 0 {
		return h.writeJobID(h.id + "\n")
	}
	return h.tellUp()
}
