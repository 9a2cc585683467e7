package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func program(c *mpi.Comm, out io.Writer) error { return kmeans(c, 500, 5, 1000, out) }

func TestKmeans(t *testing.T) {
	apptest.Succeeds(t, program, 1, 2, 3, 4)
	apptest.Succeeds(t, func(c *mpi.Comm, out io.Writer) error { return kmeans(c, 3, 3, 10, out) }, 5)
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return kmeans(c, 100_000, 10, 1000, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program, 4, 3) }

// A centre beside the mean of its points is found.
func TestCheck(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		points := []point{{float64(c.Rank()), 1}}
		for _, x := range []float64{.5, .6} {
			wrong, err := check(c, points, []point{{x, 1}}, 2)
			if err != nil || (wrong == nil) != (x == .5) {
				return fmt.Errorf("the centre of 0 and 1 at %v: %v, %v", x, wrong, err)
			}
		}
		return nil
	})
}
