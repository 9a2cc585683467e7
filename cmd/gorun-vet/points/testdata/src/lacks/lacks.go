// Package lacks has no Point.
package lacks

import (
	"fmt"

	_ "github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
)

func solve(c *mpi.Comm, x []float64, n int) error { // want solve:"messages"
	for r := 1; r < c.Size(); r++ { // over ranks
		if err := mpi.Send(c, x, r, 0); err != nil {
			return err
		}
	}
	for i := 0; i < n; i++ { // want `a loop with messages and no Point: the program cannot have portable images; to be registered: i, x`
		if err := exchange(c, x); err != nil {
			return err
		}
		for j := range x {
			x[j] += float64(i)
		}
	}
	for i := 0; i < n; i++ { // without messages
		fmt.Println(x[i])
	}
	return nil
}

func exchange(c *mpi.Comm, x []float64) error { // want exchange:"messages"
	for k := 0; k < 3; k++ { // within another loop with messages
		if err := mpi.AllreduceInPlace(c, x, mpi.Sum); err != nil {
			return err
		}
	}
	return nil
}
