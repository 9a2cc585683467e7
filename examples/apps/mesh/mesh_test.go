package main

import (
	"io"
	"math"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(n int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return mesh(c, n, 1000, out) }
}

func TestMesh(t *testing.T) {
	apptest.Succeeds(t, program(14), 1, 2, 3, 4)
	apptest.Succeeds(t, program(2), 3, 5) // no vertex inside; a rank without vertices
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return mesh(c, 80, 10_000, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(9), 4, 6) }

// The rows of a triangle's matrix add up to nothing: where the solution is the same everywhere nothing flows.
func TestStiffness(t *testing.T) {
	for _, row := range stiffness([3]point{{0, 0}, {2, .5}, {.3, 1}}) {
		if sum := row[0] + row[1] + row[2]; math.Abs(sum) > 1e-15 {
			t.Errorf("row %v adds up to %v", row, sum)
		}
	}
}

// A solution that is not the right one is found.
func TestCheck(t *testing.T) {
	s := &solver{part: &part{place: []point{{.5, .5}}}, u: []float64{3.5}}
	if wrong := s.check(); wrong != nil {
		t.Error(wrong)
	}
	if s.u[0] += 1e-6; s.check() == nil {
		t.Error("a millionth beside the solution passes")
	}
}
