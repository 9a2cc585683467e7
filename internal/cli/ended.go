package cli

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/system/alive"
)

// findJob finds a running job. Of one that has ended the error says how, and how to go on, as far as this machine knows.
func findJob(id string) (*control.Record, error) {
	r, err := control.FindJob(id)
	if errors.Is(err, control.ErrNotRunning) && id != "" {
		if known := ended(id); known != "" {
			err = errors.New(known)
		}
	}
	return r, err
}

// ended says what is known of a job that does not run, "" for nothing.
func ended(id string) string {
	root, _ := ckptDir("")
	job, err := keptJob(id)
	if err != nil {
		return endedIn(root, id, root)
	}
	d, err := detachedJob(job)
	if err != nil {
		return ""
	}
	said := ""
	switch {
	case d.Status != nil:
		said = fmt.Sprintf("job %s has ended, with status %d", job, *d.Status)
	case d.State() == alive.Dead:
		said = fmt.Sprintf("job %s has ended: its gorun (pid %d) was killed", job, d.PID)
	default:
		return ""
	}
	if d.Output != "" {
		said += "; its output is in " + printable(string(d.Output))
	}
	if how := wayOn(string(d.Folder), job, root); how != "" {
		said += "; " + how
	}
	return said
}

// endedIn says what the snapshots in a folder tell of a job that does not run.
func endedIn(dir, id, usual string) string {
	c, err := snapshot.Open(dir)
	if dir == "" || err != nil {
		return ""
	}
	job, err := c.FindJob(id)
	if err != nil {
		return ""
	}
	if how := wayOn(dir, job, usual); how != "" {
		return fmt.Sprintf("job %s does not run any more, or on another machine; %s", job, how)
	}
	return ""
}

// wayOn says how a job that has ended goes on, "" if it has no snapshot. usual is the folder that commands look into by themselves.
func wayOn(dir, job, usual string) string {
	c, err := snapshot.Open(dir)
	if dir == "" || err != nil {
		return ""
	}
	s, err := c.Latest(job)
	if err != nil {
		return ""
	}
	which := job
	if dir != usual {
		which = s.SchemaPath()
	}
	if done, err := s.Finished(); err == nil && done {
		return fmt.Sprintf("it has ended well since its newest snapshot, %d (gorun restart %s goes on from that all the same)", s.Schema.Sequence, printable(which))
	}
	return fmt.Sprintf("gorun restart %s goes on from snapshot %d", printable(which), s.Schema.Sequence)
}
