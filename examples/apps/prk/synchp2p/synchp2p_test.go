package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(m, n, group int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return synchp2p(c, m, n, 6, group, out) }
}

func TestSynchp2p(t *testing.T) {
	apptest.Succeeds(t, program(17, 11, 1), 1, 2, 3, 4)
	apptest.Succeeds(t, program(6, 12, 4), 5)
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return synchp2p(c, 1000, 1000, 50, 1, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(9, 8, 3), 4, 4) }

func TestCheck(t *testing.T) {
	if check(24, 7, 7, 2) != nil || check(12, 7, 7, 2) == nil {
		t.Error("the last point of 7 x 7 is 24 after 2 iterations, not 12")
	}
}
