package main

import (
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/apps/prk/internal/star"
	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

var small = options{n: 16, edge: 6, level: 1, radius: 1, rounds: 5, period: 3, life: 2, sub: 2}

func program(c *mpi.Comm, out io.Writer) error { return amr(c, small, out) }

func TestAmr(t *testing.T) {
	apptest.Succeeds(t, program, 1, 2, 3, 4)
	wide := options{n: 17, edge: 13, level: 2, radius: 2, rounds: 4, period: 2, life: 2, sub: 1}
	apptest.Succeeds(t, func(c *mpi.Comm, out io.Writer) error { return amr(c, wide, out) }, 6)
}

func TestLarge(t *testing.T) {
	o := options{n: 500, edge: 100, level: 2, radius: 2, rounds: 8, period: 6, life: 4, sub: 2}
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return amr(c, o, out) }, 1, 4, 6)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program, 4, 3) }

// A value that is not the grid's is found.
func TestValues(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		f, err := star.New(c, small.n, 1, 1, func(i, j int) float64 { return float64(i + j) })
		if err != nil {
			return err
		}
		r, err := newRefinement(f, &small, 3)
		if err != nil {
			return err
		}
		o := small
		o.period, o.life = 0, 0 // no time has passed
		if wrong := r.values(&o, 3); wrong != nil {
			t.Error(wrong)
		}
		if r.fine.In[r.fine.At(2, 3)] += .5; r.values(&o, 3) == nil {
			t.Error("a value that is half beside passes")
		}
		return nil
	})
}
