package main

import (
	"fmt"
	"io"
	"testing"

	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func TestSort(t *testing.T) {
	for _, n := range []int{0, 3, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			apptest.Succeeds(t, func(c *mpi.Comm, out io.Writer) error { return samplesort(c, n, 2, out) }, 1, 2, 4, 5)
		})
	}
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return samplesort(c, 2_000_000, 2, out) }, 1, 4, 6)
}

// It goes on from any Point.
func TestRestart(t *testing.T) {
	mpitest.Restart(t, 3, 2, func(c *mpi.Comm) error { return samplesort(c, 1000, 4, io.Discard) })
}

// Numbers that are lost, in disorder or on the wrong rank are found.
func TestCheck(t *testing.T) {
	for _, x := range []struct {
		name        string
		first, last []uint64 // of both ranks, which had 1 to 4
	}{
		{"lost", []uint64{1, 2}, []uint64{3, 5}},
		{"disorder", []uint64{1, 2}, []uint64{4, 3}},
		{"wrong rank", []uint64{3, 4}, []uint64{1, 2}},
	} {
		t.Run(x.name, func(t *testing.T) {
			mpitest.Run(t, 2, func(c *mpi.Comm) error {
				before, keys := digest([]uint64{1, 2}), x.first
				if c.Rank() == 1 {
					before, keys = digest([]uint64{3, 4}), x.last
				}
				wrong, err := check(c, before, keys)
				if err == nil && wrong == nil && c.Rank() == 1 {
					err = fmt.Errorf("%v and %v pass", x.first, x.last)
				}
				return err
			})
		})
	}
}
