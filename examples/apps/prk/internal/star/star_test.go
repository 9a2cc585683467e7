package star

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// The mean is 2 for each iteration, and another one is wrong.
func TestCheck(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		f, err := New(c, 12, 2, .5, func(i, j int) float64 { return .5 * float64(i+j) })
		if err != nil {
			return err
		}
		for range 3 {
			if err := f.Iterate(); err != nil {
				return err
			}
		}
		mean, wrong, err := f.Check(3)
		if err != nil || wrong != nil {
			return fmt.Errorf("mean %v: %v, %v", mean, wrong, err)
		}
		if _, wrong, err = f.Check(4); err == nil && wrong == nil {
			err = fmt.Errorf("3 iterations pass for 4")
		}
		return err
	})
}

// Those hold a square that have a point of it.
func TestHolders(t *testing.T) {
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		f, err := New(c, 8, 1, 1, func(i, j int) float64 { return 0 })
		if err != nil {
			return err
		}
		for _, x := range []struct {
			row, col, edge int
			want           string
		}{{0, 0, 4, "[0]"}, {0, 4, 2, "[1]"}, {3, 3, 2, "[0 1 2 3]"}, {4, 0, 5, "[2 3]"}} {
			if got, err := f.Holders(x.row, x.col, x.edge); err != nil || fmt.Sprint(got) != x.want {
				return fmt.Errorf("%+v: %v, %v", x, got, err)
			}
		}
		return nil
	})
}
