// Package shadowed has another thing of the name of package cr.
package shadowed

import "github.com/gorun-mpi/gorun/mpi"

func solve(c *mpi.Comm, x []float64, cr int) error { // want solve:"messages"
	for i := 0; i < cr; i++ { // want `no Point: .*; to be registered: i, x`
		if err := mpi.AllreduceInPlace(c, x, mpi.Sum); err != nil {
			return err
		}
	}
	return nil
}
