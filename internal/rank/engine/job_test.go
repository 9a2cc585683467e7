package engine_test

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

var (
	bytesType = moduletest.Bytes
	int32Type = &engine.Type{ID: 5, Size: 4, Name: "int32"}
)

// memJob makes n connected engines over rpi/mem.
func memJob(t testing.TB, n int) []*engine.Engine {
	t.Helper()
	engines := memEngines(t, n, false)
	t.Cleanup(func() {
		for _, e := range engines {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return engines
}

func memEngines(t testing.TB, n int, manual bool) []*engine.Engine {
	t.Helper()
	f := mem.NewFabric(n)
	modules := make([]rpi.Module, n)
	for i := range modules {
		modules[i] = f.Module(i)
	}
	return connect(t, modules, manual)
}

// connect makes one engine for each module.
func connect(t testing.TB, modules []rpi.Module, manual bool) []*engine.Engine {
	t.Helper()
	return moduletest.NewJob(t, len(modules), func(rank int) rpi.Module { return modules[rank] }, moduletest.Options{
		Config: func(c *engine.Config) { c.Manual = manual },
	}).Engines
}
