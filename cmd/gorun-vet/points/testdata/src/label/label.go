// Package label has a loop with a label.
package label

import "github.com/gorun-mpi/gorun/mpi"

func solve(c *mpi.Comm, x []float64, n int) error { // want solve:"messages"
again:
	for i := 0; i < n; i++ { // want `no Point: .*; to be registered: i, x`
		if err := mpi.AllreduceInPlace(c, x, mpi.Sum); err != nil {
			return err
		}
		for _, v := range x {
			if v > 1 {
				continue again
			}
		}
	}
	return nil
}
