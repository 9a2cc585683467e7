package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(n, block int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return sweep(c, n, 3, block, 4, out) }
}

func TestSweep(t *testing.T) {
	apptest.Succeeds(t, program(9, 2), 1, 2, 3, 4, 6)
	apptest.Succeeds(t, program(2, 5), 4)
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return sweep(c, 32, 8, 4, 10, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(6, 2), 4, 3) }

// Particles that are lost, or go out at one side only, are found.
func TestCheck(t *testing.T) {
	right := balance{In: 3, Hit: 1, Leaked: [3][2]float64{{.5, .5}, {.25, .25}, {.25, .25}}}
	if wrong := right.check(); wrong != nil {
		t.Error(wrong)
	}
	lost, tilted := right, right
	lost.Hit, tilted.Leaked[1] = .9, [2]float64{.2, .3}
	for _, b := range []balance{lost, tilted} {
		if b.check() == nil {
			t.Errorf("%+v passes", b)
		}
	}
}
