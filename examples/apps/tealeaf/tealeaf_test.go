package main

import (
	"io"
	"math"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
)

func program(n, steps int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return tealeaf(c, n, steps, out) }
}

// The temperature is the published one, however the square is divided.
func TestTealeaf(t *testing.T) {
	apptest.Succeeds(t, program(10, published), 1, 2, 3, 4, 6)
	apptest.Succeeds(t, program(2, 3), 4)
}

func TestLarge(t *testing.T) { apptest.Large(t, program(250, published), 1, 4, 6) }

func TestRestart(t *testing.T) { apptest.Restarts(t, program(10, 3), 4, 17) }

// Heat that is lost, and another temperature, are found.
func TestCheck(t *testing.T) {
	if wrong := check(10, published, 3.49, 3.49, temperatures[10]); wrong != nil {
		t.Error(wrong)
	}
	for _, x := range [][2]float64{{3.4899, temperatures[10]}, {math.NaN(), temperatures[10]}, {3.49, temperatures[250]}, {3.49, math.NaN()}} {
		if check(10, published, 3.49, x[0], x[1]) == nil {
			t.Errorf("heat %v and temperature %v pass", x[0], x[1])
		}
	}
}
