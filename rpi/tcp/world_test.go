package tcp

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
)

type world = moduletest.World[*Module]

var (
	env         = moduletest.Env
	newSink     = moduletest.NewSink
	eager       = moduletest.Eager
	pattern     = moduletest.Pattern
	check       = moduletest.Check
	descriptors = moduletest.Descriptors
	secret      = moduletest.Secret
	with        = moduletest.With
)

// build makes the module of a rank.
func build(int) *Module { return New() }

func newWorld(t testing.TB, n int, change ...func(*rpi.Env)) *world {
	t.Helper()
	return moduletest.NewWorld(t, n, build, change...)
}

// tiny makes sockets so small that every read and write is a short one.
func tiny(e *rpi.Env) {
	e.Params["tcp.sndbuf"], e.Params["tcp.rcvbuf"] = "4608", "2304"
}
