package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/program"
	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// With -restart-latest one line of a script starts a job and, when the script runs again, goes on with it. What
// makes two runs the same job is its name, its program with its arguments, and its working folder. Within Slurm
// the number of the batch job is the name, which stays when that is requeued.

// nameJob gives the job a name if it has none and a batch system has one.
func nameJob(fs *flag.FlagSet) error {
	if id := os.Getenv("SLURM_JOB_ID"); id != "" && !set(fs)["name"] {
		return fs.Set("name", "slurm-"+id)
	}
	return nil
}

// latest finds what a job goes on from. all is empty if it has to begin.
func (o *options) latest(std stdio, args []string) (all []*snapshot.Snapshot, err error) {
	dir, err := spec.Getwd()
	if err != nil {
		return nil, err
	}
	var p program.Program
	if err := p.Find(args[0], dir); err != nil {
		return nil, err
	}
	root, err := ckptDir(o.CkptDir)
	if err != nil {
		return nil, err
	}
	c, err := openCatalogue(root)
	if err != nil {
		return nil, err
	}
	if _, err := control.Jobs(); err != nil { // removes what dead jobs left
		return nil, err
	}
	fits := func(s *snapshot.Schema) bool {
		return program.Line(s.Plan["name"], s.Program.Path, s.Program.Args, s.Program.Dir) == program.Line(o.name, p.Name, args[1:], dir)
	}
	all, passed, doubtful, err := c.Unfinished(fits)
	for _, why := range slices.Concat(doubtful, passed, []error{err}) {
		if momentary(why) {
			return nil, spec.WithStatus(spec.ExitAgain, fmt.Errorf("-restart-latest: what may be this job's newest snapshot cannot be read just now, so nothing is begun: %w; run the line again, or if it is lost for good, remove the job (gorun snapshots -remove JOB)", why))
		}
	}
	for _, why := range doubtful {
		fmt.Fprintf(std.err, "gorun: -restart-latest passes over a job that cannot be read: %v\n", why)
	}
	tellPassed(std, passed)
	if errors.Is(err, snapshot.ErrNotFound) {
		fmt.Fprintf(std.err, "gorun: the job begins: there is no snapshot of an unfinished one%s with this program, arguments and folder\n", named(o.name))
		o.Still = func() error {
			_, _, _, err := c.Unfinished(fits)
			if errors.Is(err, snapshot.ErrNotFound) {
				return nil
			}
			return wentOn("the job")
		}
		return nil, nil
	}
	return all, err
}

// momentary reports whether a file could not be read, other than for what is in it: a file system may be away, or slow, or not mounted yet.
func momentary(err error) bool {
	var no syscall.Errno
	return errors.As(err, &no)
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return " named " + name
}

// checkLatest refuses what cannot be meant.
func (o *options) checkLatest() error {
	switch {
	case o.restartLatest && o.CR == "":
		return errors.New("-restart-latest needs -cr, else there is never anything to go on from")
	case o.requeue && os.Getenv("SLURM_JOB_ID") == "":
		return errors.New("-requeue: SLURM_JOB_ID is not set, so there is no batch job to be requeued")
	case o.requeue && o.CR == "":
		return errors.New("-requeue needs -cr: what is requeued goes on from a snapshot")
	}
	return nil
}

// requeueJob asks Slurm to run the batch job again. The job keeps its number.
func requeueJob() error {
	id := os.Getenv("SLURM_JOB_ID")
	if out, err := exec.Command("scontrol", "requeue", id).CombinedOutput(); err != nil {
		return fmt.Errorf("-requeue: scontrol requeue %s: %w: %s (a job must not have --no-requeue)", id, err, strings.TrimSpace(string(out)))
	}
	return nil
}
