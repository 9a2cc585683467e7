package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(n, moves int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return life(c, n, moves, out) }
}

func TestLife(t *testing.T) {
	apptest.Succeeds(t, program(27, 30), 1, 2, 3, 4, 6)
	apptest.Succeeds(t, program(8, 9), 5, 8) // blocks of one row
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return life(c, 500, 200, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(16, 5), 4, 11) }

// A cell that is wrong is found.
func TestCheck(t *testing.T) {
	b := &board{n: 8, rows: 10, cols: 10, now: make([]uint8, 100)}
	if _, wrong := b.check(0); wrong == nil {
		t.Error("an empty torus passes for one with a glider")
	}
}
