package head

import (
	"fmt"
	"slices"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/launch/control"
	"github.com/gorun-mpi/gorun/internal/launch/spec"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
)

// noRival refuses to go on in files that the same job may be writing to, if it still runs on this
// machine: cutting them would damage its output. It is called before this job has a record of its
// own. Automatic restarts come later.
func (h *head) noRival() error {
	from := h.opt.From
	if from == nil || from.Schema.Backend == wire.BackendSelf || h.opt.Files != whole.FilesRefuse {
		return nil
	}
	jobs, err := control.Jobs()
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(r *control.Record) bool { return r.Job != h.id })
	if len(jobs) == 0 {
		return nil
	}
	file, err := spec.FirstOutput(from)
	if err != nil || file == "" {
		return err
	}
	r, id := jobs[0], jobs[0].Job
	if len(jobs) > 1 {
		id = r.Incarnation
	}
	return fmt.Errorf("job %s is still running (pid %d) and may be writing to %s, in which this restart would go on: end it (gorun kill %s), or use -files copy to go on in a copy, -files keep to go on in the file as it is",
		r.Job, r.PID, file, id)
}
