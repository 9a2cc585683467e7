package mpi_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/mpi"
)

// A restart follows if a part of the rank has died, but not if the program has decided to end.
func TestEndings(t *testing.T) {
	for err, want := range map[error]job.Ending{
		errors.New("no convergence"):                              job.Decided,
		fmt.Errorf("step 3: %w", mpi.ErrPeerFailed):               job.Follows,
		fmt.Errorf("step 3: %w: pid 7 has ended", device.ErrLost): job.Lost,
		fmt.Errorf("step 3: %w", device.ErrKernel):                job.Decided,
	} {
		if got := mpi.Ending(err); got != want {
			t.Errorf("%v: %v, not %v", err, got, want)
		}
	}
}
