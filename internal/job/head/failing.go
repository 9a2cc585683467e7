package head

import (
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
)

// failing counts checkpoints that fail, whoever has asked for them. A job that nobody looks at is to show in the end, and
// to who asks, that it has no snapshot.
type failing struct {
	row    int // since the newest that has not failed
	all    int
	why    string
	newest time.Time // commit
}

// failed counts one, unless the end of the job is why.
func (h *head) failed(why string) {
	if h.job.Steady() {
		h.failing.row++
		h.failing.all++
		h.failing.why = why
	}
}

// worked counts one that has not failed.
func (h *head) worked() { h.failing.row, h.failing.newest = 0, time.Now() }

// failingState is what there is to tell; nil: nothing.
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
