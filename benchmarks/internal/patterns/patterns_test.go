package patterns

import (
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Every collective runs in both forms, whatever the size leaves for a rank, and from every root.
func TestAll(t *testing.T) {
	for _, np := range []int{1, 3} {
		mpitest.Run(t, np, func(c *mpi.Comm) error {
			for _, x := range All {
				for _, size := range []int{0, 4, 64} {
					calls := x.On(&Buffers{C: c, Size: size, Shift: true})
					for i := range np + 1 {
						if err := calls.Do(i); err != nil {
							return fmt.Errorf("%s, %d bytes: %w", x.Name, size, err)
						}
						r, err := calls.Begin(i)
						if err == nil {
							_, err = r.Wait()
						}
						if err != nil {
							return fmt.Errorf("%s, %d bytes: %w", x.Nonblocking(), size, err)
						}
					}
				}
			}
			return nil
		})
	}
}
