package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(n, radius int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return stencil(c, n, 7, radius, false, out) }
}

func TestStencil(t *testing.T) {
	apptest.Succeeds(t, program(23, 2), 1, 2, 3, 4, 6)
	apptest.Succeeds(t, program(3, 1), 2)
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return stencil(c, 1000, 50, 3, false, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(16, 3), 4, 4) }
