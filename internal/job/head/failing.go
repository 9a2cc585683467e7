package head

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
)

// failing counts failed checkpoints of all kinds. A job that runs unwatched must show at its end,
// and when it is asked, that it has no snapshot.
type failing struct {
	row    int // failures since the newest success
	all    int
	why    string
	newest time.Time // commit
}

// failed counts a failure, unless the end of the job is the cause.
func (h *head) failed(why string) {
	if h.job.Steady() {
		h.failing.row++
		h.failing.all++
		h.failing.why = why
	}
}

// worked counts a success.
func (h *head) worked() { h.failing.row, h.failing.newest = 0, time.Now() }

// failingState is the state to report; nil: there is no failure.
func (h *head) failingState() *control.Failing {
	f := &h.failing
	if f.row == 0 {
		return nil
	}
	since := f.newest
	if since.IsZero() {
		since = h.began
	}
	return &control.Failing{Attempts: f.row, Why: f.why, Since: since}
}
