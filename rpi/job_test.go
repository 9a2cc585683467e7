package rpi_test

import (
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

var (
	bytesType = &rpi.Type{ID: 8, Size: 1, Name: "uint8"}
	int32Type = &rpi.Type{ID: 5, Size: 4, Name: "int32"}
)

// memJob makes n connected engines over rpi/mem.
func memJob(t testing.TB, n int) []*rpi.Engine {
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

func memEngines(t testing.TB, n int, manual bool) []*rpi.Engine {
	t.Helper()
	f := mem.NewFabric(n)
	modules := make([]rpi.Module, n)
	for i := range modules {
		modules[i] = f.Module(i)
	}
	return connect(t, modules, manual)
}

// connect makes one engine for each module.
func connect(t testing.TB, modules []rpi.Module, manual bool) []*rpi.Engine {
	t.Helper()
	n := len(modules)
	engines, addrs := make([]*rpi.Engine, n), make([][]byte, n)
	for i, m := range modules {
		engines[i] = rpi.New(rpi.Config{Rank: i, Size: n, Modules: []rpi.Module{m}, Manual: manual})
		var err error
		if addrs[i], err = m.Start(rpi.Env{Rank: i, Size: n, Sink: engines[i].Sink(0)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range modules {
		if err := m.Peers(addrs); err != nil {
			t.Fatal(err)
		}
		engines[i].Start()
	}
	return engines
}
