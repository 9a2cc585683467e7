package head

import (
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// noRival refuses to go on with a job that already runs on this machine, wherever its snapshots
// lie. It is called before this job has a record of its own. Automatic restarts come later.
func (h *head) noRival() error {
	for began := time.Now(); ; time.Sleep(rivalEvery) {
		r, err := h.rival()
		if err != nil || r == nil {
			return err
		}
		if time.Since(began) >= h.opt.Await {
			return fmt.Errorf("job %s is still running on this machine (pid %d)%s, and this would be a second run of it: end it (gorun kill %s), or use -files copy to go on beside it in copies of its files, -files keep to go on in the files as they are",
				r.Job, r.PID, h.writes(), r.Incarnation)
		}
	}
}

// line is what -restart-latest knows the job by.
func (h *head) line() string {
	return program.Line(h.opt.Plan["name"], h.prog.Name, h.opt.Args, h.opt.Dir)
}

// writes returns a file that the running job may be writing to.
func (h *head) writes() string {
	if h.opt.From == nil || h.opt.From.Schema.Backend == wire.BackendSelf {
		return ""
	}
	if file, err := spec.FirstOutput(h.opt.From); err == nil && file != "" {
		return " and may be writing to " + file
	}
	return ""
}

// rivalEvery is how often a job that is to end is looked for.
const rivalEvery = 100 * time.Millisecond

// rival finds the job that this one would be a second run of.
func (h *head) rival() (*control.Record, error) {
	if h.opt.From == nil && !h.opt.Latest {
		return nil, nil
	}
	jobs, err := control.Jobs()
	if err != nil {
		return nil, err
	}
	for _, r := range jobs {
		if r.Job == h.id || h.opt.Latest && r.Line == h.line() {
			return r, nil
		}
	}
	return nil, nil
}
