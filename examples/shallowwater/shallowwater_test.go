package main

import (
	"io"
	"math"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(c *mpi.Comm, out io.Writer) error { return shallowwater(c, 20, 40, out) }

func TestShallowwater(t *testing.T) { apptest.Succeeds(t, program, 1, 2, 3, 4) }

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return shallowwater(c, 300, 300, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program, 4, 13) }

// What is lost or gained is found.
func TestCheck(t *testing.T) {
	before := []float64{100, 0, 0, 500}
	if wrong := check(before, []float64{100, 0, 0, 400}); wrong != nil {
		t.Errorf("a loss of energy alone: %v", wrong)
	}
	for i, v := range []float64{99, 1, -1, 501} {
		after := slices.Clone(before)
		if after[i] = v; check(before, after) == nil {
			t.Errorf("%v after %v passes", after, before)
		}
		if after[i] = math.NaN(); check(before, after) == nil {
			t.Errorf("%v passes", after)
		}
	}
}
