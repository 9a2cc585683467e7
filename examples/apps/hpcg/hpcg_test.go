package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func program(n, iters int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return hpcg(c, n, iters, out) }
}

func TestHpcg(t *testing.T) { apptest.Succeeds(t, program(8, 12), 1, 2, 3, 4, 8) }

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return hpcg(c, 16, 30, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(4, 8), 4, 5) }

// An operator that is not symmetric is found.
func TestSymmetric(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		grid, err := newGrid(c)
		if err != nil {
			return err
		}
		l, err := newLevel(grid, 4, 4)
		if err != nil {
			return err
		}
		wrong, err := symmetric(l, "a shift", func(x, y []float64) error {
			if err := l.halo.exchange(x); err != nil {
				return err
			}
			l.each(func(k int) { y[k] = x[k+1] })
			return nil
		})
		if err == nil && wrong == nil {
			err = fmt.Errorf("a shift passes for a symmetric operator")
		}
		return err
	})
}
