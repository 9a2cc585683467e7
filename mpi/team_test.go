package mpi_test

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// Too many ranks for a team go on with messages.
func TestMostTeam(t *testing.T) {
	for most, want := range map[int]bool{2: false, 3: true} {
		undo := mpi.MostTeam(most)
		c := jobtest.New(3, jobtest.Options{Dir: t.TempDir(), RPI: []string{"shm"}})
		asRanks(t, c, func(w *mpi.Comm) error {
			for range 3 {
				sum := make([]int, 1)
				if err := mpi.Allreduce(w, []int{w.Rank()}, sum, mpi.Sum); err != nil {
					return err
				}
				if sum[0] != 3 || mpi.InTeam(w) != want {
					return fmt.Errorf("sum %d; in a team: %v", sum[0], mpi.InTeam(w))
				}
			}
			return nil
		})()
		c.Stop()
		undo()
	}
}
