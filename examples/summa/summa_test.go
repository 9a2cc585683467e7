package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func program(n, width, devices int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return summa(c, n, width, devices, out) }
}

func TestSumma(t *testing.T) {
	apptest.Succeeds(t, program(35, 4, 1), 1, 2, 7)
	apptest.Succeeds(t, program(35, 4, 2), 4, 6)
	apptest.Succeeds(t, program(2, 4, 2), 8) // some ranks have nothing
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return summa(c, 700, 64, 2, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(20, 3, 2), 4, 4) }

// A restart has another number of devices.
func TestOtherDevices(t *testing.T) {
	mpitest.Restart(t, 4, 4, func(c *mpi.Comm) error {
		devices := 2
		if cr.On(c).Restarted() {
			devices = 1
		}
		return program(20, 3, devices)(c, io.Discard)
	})
}

// The product that is compared with is that of the factors, and an element that is wrong is found.
func TestCheck(t *testing.T) {
	const n = 7
	b := &block{rows: n, cols: n, v: make([]float64, n*n)}
	for i := range n {
		for j := range n {
			for k := range n {
				b.v[i*n+j] += factorA(i, k) * factorB(k, j)
			}
		}
	}
	if wrong := b.check(n); wrong != nil {
		t.Error(wrong)
	}
	if b.v[9]++; b.check(n) == nil {
		t.Error("a wrong element passes")
	}
}
