package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(n, width int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return dgemm(c, n, width, 3, out) }
}

func TestDgemm(t *testing.T) {
	apptest.Succeeds(t, program(19, 4), 1, 2, 3, 4, 6)
	apptest.Succeeds(t, program(2, 4), 9) // some ranks have nothing
}

func TestLarge(t *testing.T) { apptest.Large(t, program(600, 32), 1, 4, 6) }

func TestRestart(t *testing.T) { apptest.Restarts(t, program(12, 4), 6, 5) }

// A product that is wrong in one element is found.
func TestCheck(t *testing.T) {
	m := &blocks{n: 3, left: 1, rows: 2, cols: 2, c: []float64{6, 12, 6, 12}}
	if wrong := m.check(2); wrong != nil {
		t.Error(wrong)
	}
	if m.c[2] = 7; m.check(2) == nil {
		t.Error("a wrong product passes")
	}
}
