package head

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// outcome is all that determines gorun's exit status. A fact that the user can act on ranks before
// one that is only information:
//
//	the job never began                      the status of the error
//	it was checkpointed and stopped          -ckpt-exit-status: a batch system runs it again, whatever else was lost
//	a rank failed, or somebody ended it      that status
//	all ranks ended well, but output is lost 1
//	all is well                              0
type outcome struct {
	refused error            // the job never began
	verdict verdict          // else: how it has ended
	lost    error            // output could not be written
	failing *control.Failing // checkpoints were failing at the end; nil: they were not
	goesOn  string           // the command that goes on from the newest snapshot; "": there is none, or nothing to go on with
}

func (o *outcome) status() int {
	switch {
	case o.refused != nil:
		return spec.StatusOf(o.refused)
	case o.verdict.Last > 0 || o.verdict.Code != spec.ExitOK || o.lost == nil:
		return o.verdict.Code
	}
	return spec.ExitFailed
}

// texts are the messages to the user at the end, the most important last: a terminal shows the end.
func (o *outcome) texts() (all []error) {
	if o.lost != nil {
		all = append(all, fmt.Errorf("output of ranks is lost: %w", o.lost))
	}
	if o.failing != nil {
		all = append(all, fmt.Errorf("checkpoints: %v", o.failing))
	}
	if o.verdict.Text != "" {
		all = append(all, errors.New(o.verdict.Text))
	}
	if o.refused != nil {
		all = append(all, o.refused)
	}
	if o.goesOn != "" {
		all = append(all, fmt.Errorf("go on with: %s", o.goesOn))
	}
	return all
}

// goesOn is the command that goes on from the newest snapshot of a job that has failed or was
// ended. A snapshot in memory alone is gone with the job.
func (h *head) goesOn() string {
	if h.result.Code == spec.ExitOK || h.result.Last > 0 {
		return ""
	}
	if schema := h.storage.Outlives(); schema != "" {
		return h.restart(schema)
	}
	return ""
}
