package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(n int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return transpose(c, n, 5, out) }
}

func TestTranspose(t *testing.T) {
	apptest.Succeeds(t, program(19), 1, 2, 3, 4)
	apptest.Succeeds(t, program(3), 5) // some ranks have no row
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return transpose(c, 1000, 50, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(12), 4, 3) }

// A matrix that is not transposed is found.
func TestCheck(t *testing.T) {
	m := &matrices{n: 2, rows: 2, b: []float64{0, 2, 1, 3}}
	if wrong := m.check(1); wrong != nil {
		t.Error(wrong)
	}
	if m.b = []float64{0, 1, 2, 3}; m.check(1) == nil {
		t.Error("a matrix that is not transposed passes")
	}
}
