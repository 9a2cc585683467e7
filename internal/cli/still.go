package cli

import (
	"fmt"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// still returns the question whether a job is still where it was when a snapshot of it was chosen. A head asks that when nobody else can go on
// with the job any more: another may have had it meanwhile.
func still(s *snapshot.Snapshot) func() error {
	before := stand(s)
	return func() error {
		if now := stand(s); now == before {
			return nil
		}
		return wentOn("job " + s.Schema.Job)
	}
}

// stand is how far the job of a snapshot has come, to be compared.
func stand(s *snapshot.Snapshot) string {
	root := catalogueOf(s)
	if root == "" {
		return "" // a copy, which nobody adds to
	}
	c, err := openCatalogue(root)
	if err != nil {
		return err.Error()
	}
	newest, err := c.Latest(s.Schema.Job)
	if err != nil {
		return err.Error()
	}
	finished, err := newest.Finished()
	return fmt.Sprint(newest.Schema.Sequence, finished, err)
}

// wentOn says that the choice of a snapshot is of no use any more.
func wentOn(what string) error {
	return spec.WithStatus(spec.ExitAgain, fmt.Errorf("%s has gone on meanwhile, under another gorun: run this again", what))
}
