package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func program(n, devices int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return floyd(c, n, devices, out) }
}

func TestFloyd(t *testing.T) {
	apptest.Succeeds(t, program(33, 3), 1, 2, 4)
	apptest.Succeeds(t, program(2, 3), 3) // some ranks and devices have nothing
}

func TestLarge(t *testing.T) { apptest.Large(t, program(700, 2), 1, 4) }

// A restart has another number of devices.
func TestRestart(t *testing.T) {
	mpitest.Restart(t, 2, 10, func(c *mpi.Comm) error {
		devices := 1
		if cr.On(c).Restarted() {
			devices = 3
		}
		return floyd(c, 21, devices, io.Discard)
	})
}

// A distance that is wrong is found.
func TestCheck(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		dist := device.NewArray[int32](5, 5)
		if err := edges(dist, 0); err != nil {
			return err
		}
		d, err := dist.HostW()
		if err != nil {
			return err
		}
		copy(d, dijkstra(0, 5))
		if wrong, err := check(c, dist, 0); wrong != nil || err != nil {
			t.Error(wrong, err)
		}
		d[3]++
		wrong, err := check(c, dist, 0)
		if wrong == nil {
			t.Error("a wrong distance passes")
		}
		return err
	})
}
