package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(c *mpi.Comm, out io.Writer) error { return pi(c, 10_000, 1000, out) }

func TestPi(t *testing.T) {
	apptest.Succeeds(t, program, 1, 2, 3, 4)
	apptest.Succeeds(t, func(c *mpi.Comm, out io.Writer) error { return pi(c, 2, 1, out) }, 1, 5)
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return pi(c, 100_000_000, 1<<20, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program, 3, 2) }

func TestCheck(t *testing.T) {
	if check(3.1415, 10_000) == nil {
		t.Error("3.1415 passes for 10,000 strips")
	}
}
