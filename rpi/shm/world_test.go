package shm

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
)

type (
	world = moduletest.World[*Module]
	job   = moduletest.Job[*Module]
	sink  = moduletest.Sink
)

var (
	env         = moduletest.Env
	newSink     = moduletest.NewSink
	eager       = moduletest.Eager
	pattern     = moduletest.Pattern
	check       = moduletest.Check
	descriptors = moduletest.Descriptors
)

// build makes the module of a rank.
func build(int) *Module { return New() }

func newWorld(t testing.TB, n int, change ...func(*rpi.Env)) *world {
	t.Helper()
	return moduletest.NewWorld(t, n, build, change...)
}
