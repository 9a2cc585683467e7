package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func program(n, devices int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return spmv(c, n, 5, 12, devices, out) }
}

func TestSpmv(t *testing.T) {
	apptest.Succeeds(t, program(150, 1), 1)
	apptest.Succeeds(t, program(150, 3), 2, 4)
	apptest.Succeeds(t, program(2, 3), 3) // some ranks and devices have nothing
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return spmv(c, 200_000, 32, 50, 2, out) }, 1, 4)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(100, 2), 2, 6) }

// Restarts have other numbers of ranks and devices.
func TestResize(t *testing.T) {
	mpitest.Resize(t, 4, []int{2, 3, 1}, func(c *mpi.Comm) error {
		devices := 2
		if cr.On(c).Restarted() {
			devices = 1 + c.Size()
		}
		return program(60, devices)(c, io.Discard)
	})
}

// A product that is wrong is found.
func TestCheck(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error { return wrongOnce(c, t) })
}

func wrongOnce(c *mpi.Comm, t *testing.T) error {
	m, err := newMatrix(dist.Even(10, c.Size()), c.Rank(), 3)
	if err != nil {
		return err
	}
	y := device.NewArray[uint32](m.rows[c.Rank()+1] - m.first)
	if err := fill(y, m.first); err != nil {
		return err
	}
	for _, want := range []bool{true, false} {
		got, right, err := m.verify(c, y, 0)
		if err != nil {
			return err
		}
		if (got == right) != want {
			t.Errorf("the vector counts as right: %v", got == right)
		}
		v, err := y.HostW()
		if err != nil {
			return err
		}
		v[0]++
	}
	return nil
}
