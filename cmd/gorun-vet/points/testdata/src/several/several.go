// Package several has two loops, of which the later needs what is to be registered before the earlier.
package several

import "github.com/gorun-mpi/gorun/mpi"

func solve(c *mpi.Comm, x []float64, n int) error { // want solve:"messages"
	for i := 0; i < n; i++ { // want `no Point: .*; to be registered: i, x; it is not the only one`
		if err := mpi.AllreduceInPlace(c, x, mpi.Sum); err != nil {
			return err
		}
	}
	for k := 0; k < n; k++ { // want `no Point: .*; to be registered: k, x; it is not the only one`
		if err := mpi.AllreduceInPlace(c, x, mpi.Sum); err != nil {
			return err
		}
	}
	return nil
}
