package cli

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// remover carries out gorun snapshots -remove and -tails.
type remover struct {
	std                 stdio
	json, tails, remove bool
	cat                 *snapshot.Catalogue
	found               []tail
}

// tail is one file as it is listed.
type tail struct {
	Job  string           `json:"job"`
	Path rawstring.String `json:"path"`
}

func (r *remover) run(dir string, args []string) error {
	root, err := ckptDir(dir)
	if err != nil {
		return err
	}
	if r.cat, err = openCatalogue(root); err != nil {
		return err
	}
	jobs, err := r.cat.Jobs()
	if err != nil {
		return err
	}
	if len(args) == 1 {
		job, err := r.cat.FindJob(args[0])
		switch {
		case errors.Is(err, snapshot.ErrForeign):
			return ownersOnly(err)
		case err != nil:
			return fmt.Errorf("%w (the beginning of a job's id is wanted)", err)
		}
		jobs = []string{job}
	}
	if !r.tails {
		return r.job(jobs[0])
	}
	var errs []error
	for _, job := range jobs {
		errs = append(errs, r.tailsOf(job))
	}
	return errors.Join(append(errs, r.print())...)
}

// job removes the snapshots of a job.
func (r *remover) job(job string) error {
	running, err := control.Jobs()
	if err != nil {
		return err
	}
	for _, j := range running {
		if j.Job == job {
			return fmt.Errorf("job %s is running: gorun kill %s ends it", job, j.Incarnation)
		}
	}
	left, err := r.cat.Tails(job)
	if err != nil {
		return err
	}
	if err := r.cat.Remove(job); err != nil {
		return err
	}
	fmt.Fprintf(r.std.err, "gorun: removed all snapshots of job %s\n", job)
	for _, path := range left {
		fmt.Fprintf(r.std.err, "gorun: %s stays, which a restart of the job has left\n", path)
	}
	return nil
}

// tailsOf finds the tails of a job, and removes them if asked to.
func (r *remover) tailsOf(job string) error {
	find := r.cat.Tails
	if r.remove {
		find = r.cat.RemoveTails
	}
	paths, err := find(job)
	for _, path := range paths {
		r.found = append(r.found, tail{job, rawstring.String(path)})
	}
	return err
}

func (r *remover) print() error {
	if r.json {
		if r.found == nil {
			r.found = []tail{}
		}
		return printJSON(r.std, r.found)
	}
	for _, t := range r.found {
		if r.remove {
			fmt.Fprintf(r.std.err, "gorun: removed %s\n", t.Path)
		} else {
			fmt.Fprintln(r.std.out, t.Path)
		}
	}
	if len(r.found) == 0 {
		fmt.Fprintln(r.std.err, "gorun: no restart has left a tail that is noted in", r.cat.Root())
	}
	return nil
}
