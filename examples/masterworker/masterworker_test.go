package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func TestMasterworker(t *testing.T) {
	apptest.Succeeds(t, func(c *mpi.Comm, out io.Writer) error { return masterworker(c, 3000, 70, out) }, 1, 2, 4, 5)
	apptest.Succeeds(t, func(c *mpi.Comm, out io.Writer) error { return masterworker(c, 3, 2, out) }, 4) // more ranks than tasks
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return masterworker(c, 2_000_000, 10_000, out) }, 1, 4, 6)
}

// It goes on from any Point.
func TestRestart(t *testing.T) {
	mpitest.Restart(t, 3, 2, func(c *mpi.Comm) error { return masterworker(c, 3000, 40, io.Discard) })
}

// A prime that is missing, and a number that is no prime, are found.
func TestCheck(t *testing.T) {
	for _, found := range [][]int{{2, 3, 5}, {2, 3, 5, 7, 9}, {2, 3, 4, 5, 7}, nil} {
		if check(found, 10) == nil {
			t.Errorf("%v pass for the primes below 10", found)
		}
	}
}
