package jobtest

import (
	"github.com/gorun-mpi/gorun/internal/job"
	"github.com/gorun-mpi/gorun/mpi"
)

// Rank runs f as one rank of the cluster, Finalize included.
func Rank(j *job.Job, f func(world *mpi.Comm) error) error {
	world := mpi.NewWorld(j, func(text string) { panic(text) })
	defer mpi.Shutdown(world)
	if err := f(world); err != nil {
		return err
	}
	return j.Finalize()
}
