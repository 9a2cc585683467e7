package head

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
)

// Commands that wait for a job (-jobid-file, gorun -detach) are told when it is up: when all ranks have come through Init. A program that
// never calls Init is up when all of it runs. That it is one shows when none of its ranks has called Init for a while.

// initWithin is how long a program that calls Init may take for that.
const initWithin = time.Second

// tellUp tells that the job is up, once to those who wait, and with each life to the file.
func (h *head) tellUp() error {
	err := h.writeJobID(h.id + "\n")
	if err == nil && !h.up && h.opt.Up != nil {
		h.opt.Up(h.id)
	}
	h.up = true
	return err
}

// foreign tells that a program is up that does not call Init.
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

// ended tells those who still wait how a job has ended that was over before it was up: who reads the file is told its id, and
// gorun -detach, if it has ended well, the same.
func (h *head) ended() error {
	if h.up {
		return nil
	}
	if h.result.Code != 0 {
		return h.writeJobID(h.id + "\n")
	}
	return h.tellUp()
}
