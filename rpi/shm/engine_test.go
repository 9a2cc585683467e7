package shm

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
)

// Engines over this module, whose ranks also take turns of a team.
func TestEnginesWithCheckpoints(t *testing.T) {
	moduletest.Checkpoints(t, build, func(j *job) { takeTurns(j, 100) })
}
