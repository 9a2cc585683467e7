package shm

import (
	"testing"

	"github.com/gorun-mpi/gorun/rpi/internal/moduletest"
)

// Engines over this module, which take turns beside.
func TestEnginesWithCheckpoints(t *testing.T) {
	moduletest.Checkpoints(t, build, func(j *job) { takeTurns(j, 100) })
}
