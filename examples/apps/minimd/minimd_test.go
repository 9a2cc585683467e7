package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func program(n, steps int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return minimd(c, n, steps, out) }
}

func TestMinimd(t *testing.T) {
	apptest.Succeeds(t, program(4, 50), 1, 2, 4)
	apptest.Succeeds(t, program(6, 25), 3)
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return minimd(c, 10, 200, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(4, 45), 2, 2) }

// Each rank's box must be as wide as atoms reach.
func TestTooManyRanks(t *testing.T) {
	mpitest.Run(t, 8, func(c *mpi.Comm) error {
		if err := minimd(c, 2, 1, io.Discard); err == nil || !strings.Contains(err.Error(), "use fewer ranks") {
			return fmt.Errorf("8 ranks for a box of 2 cells: %v", err)
		}
		return nil
	})
}

func TestCheck(t *testing.T) {
	before := totals{Atoms: 100, Kinetic: 200, Potential: -600}
	for _, after := range []totals{
		{Atoms: 99, Kinetic: 200, Potential: -600},
		{Atoms: 100, Kinetic: 210, Potential: -600},
		{Atoms: 100, Kinetic: 200, Potential: -600, Momentum: vector{0, 1, 0}},
	} {
		if check(before, after) == nil {
			t.Errorf("%+v after %+v passes", after, before)
		}
	}
}
