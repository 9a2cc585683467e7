package launcher

import (
	"fmt"
	"os"
	"slices"

	"github.com/gorun-mpi/gorun/cr/snapshot"
)

// outputs is an Imager that can tell which files a process was writing to.
type outputs interface {
	// Outputs lists the regular files that an image has open for writing.
	Outputs(image string) ([]string, error)
}

// noRival refuses to go on in files that the same job, still running on this
// machine, may be writing to: cutting them would be at its expense. It is asked
// before this job has a record of its own; restarts of its own come later.
func (h *head) noRival() error {
	from := h.opt.From
	if from == nil || from.Schema.Backend == backendSelf || h.opt.Files != FilesRefuse {
		return nil
	}
	jobs, err := Jobs()
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(r *Record) bool { return r.Job != h.id || r.PID == os.Getpid() })
	if len(jobs) == 0 {
		return nil
	}
	file, err := firstOutput(from)
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

// sharer is an Imager that cannot bring back files that several ranks write to.
type sharer interface {
	// Shared names the files that several of a job's images have open for writing;
	// nil if there are none.
	Shared(images []string) error
}

// sharedOutputs warns of a snapshot that cannot be restarted with -files refuse
// because of files that several ranks write to: better now than after a death.
// What else may be wrong with it the restart will say.
func sharedOutputs(s *snapshot.Snapshot) string {
	by, err := FindImager(s.Schema.Backend)
	if err != nil {
		return "" // portable images
	}
	if sh, ok := by.(sharer); ok {
		err = sh.Shared(imagesOf(s))
	}
	if err == nil {
		return ""
	}
	return fmt.Sprintf("warning: snapshot %d cannot be restarted with -files refuse, the default, also not by -restarts: %v", s.Schema.Sequence, err)
}

// firstOutput is a file that a rank of the snapshot was writing to, "" if none was.
func firstOutput(s *snapshot.Snapshot) (string, error) {
	by, err := FindImager(s.Schema.Backend)
	if err != nil {
		return "", err
	}
	o, ok := by.(outputs)
	if !ok {
		return "", nil
	}
	for rank := range s.Schema.NP {
		files, err := o.Outputs(s.ImagePath(rank))
		if err != nil {
			return "", fmt.Errorf("rank %d: %w", rank, err)
		}
		if len(files) > 0 {
			return files[0], nil
		}
	}
	return "", nil
}
