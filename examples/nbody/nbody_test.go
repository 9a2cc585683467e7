package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(c *mpi.Comm, out io.Writer) error { return nbody(c, 50, 20, out) }

func TestNbody(t *testing.T) {
	apptest.Succeeds(t, program, 1, 2, 3, 4)
	apptest.Succeeds(t, func(c *mpi.Comm, out io.Writer) error { return nbody(c, 3, 5, out) }, 5) // some ranks have no star
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return nbody(c, 1000, 50, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program, 3, 7) }

// What is lost or gained is found.
func TestCheck(t *testing.T) {
	before := [4]float64{0, 0, 0, -1}
	for i := range before {
		after := before
		if after[i] += .002; check(before, after) == nil {
			t.Errorf("%v after %v passes", after, before)
		}
	}
}
