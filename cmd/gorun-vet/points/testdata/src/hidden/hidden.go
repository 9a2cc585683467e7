// Package hidden has a counter with the name of another variable.
package hidden

import "github.com/gorun-mpi/gorun/mpi"

func solve(c *mpi.Comm, x []float64, n int) error { // want solve:"messages"
	i := len(x) / 2
	x[i] = 1
	for i := 0; i < n; i++ { // want `no Point: .*; to be registered: i, x`
		if err := mpi.AllreduceInPlace(c, x, mpi.Sum); err != nil {
			return err
		}
	}
	x[i] = 0
	return nil
}
