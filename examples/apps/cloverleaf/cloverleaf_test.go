package main

import (
	"io"
	"math"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(d deck) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return cloverleaf(c, d, out) }
}

// small is a problem that can be divided in both directions. Its kinetic energy is what one rank finds.
var small = deck{24, 18, edge, 25, 10}

func init() { published[small] = 2.035183082841 }

// The kinetic energy is the published one, however the box is divided.
func TestCloverleaf(t *testing.T) {
	apptest.Succeeds(t, program(problems[1]), 1, 2, 3)
	apptest.Succeeds(t, program(small), 1, 4, 5, 9)
}

func TestLarge(t *testing.T) { apptest.Large(t, program(problems[2]), 1, 4, 6) }

func TestRestart(t *testing.T) { apptest.Restarts(t, program(small), 4, 11) }

// Ranks that would have too few cells are refused.
func TestDivide(t *testing.T) {
	if d, err := divide(6, deck{nx: 100, ny: 3}); err != nil || d[0] != 1 || d[1] != 6 {
		t.Errorf("%v, %v", d, err)
	}
	if d, err := divide(7, deck{nx: 20, ny: 20}); err == nil {
		t.Errorf("7 ranks get %v", d)
	}
}

// Mass that is lost, and another kinetic energy, are found.
func TestCheck(t *testing.T) {
	right := totals{12, 25, published[problems[1]]}
	before := totals{12, 28, 0}
	if wrong := check(problems[1], before, right); wrong != nil {
		t.Error(wrong)
	}
	for _, after := range []totals{{11.9, 25, right.kinetic}, {12, 25, 1.9}, {12, math.NaN(), right.kinetic}, {12, 25, math.NaN()}, {12, 27, right.kinetic}} {
		if check(problems[1], before, after) == nil {
			t.Errorf("%v passes", after)
		}
	}
}
