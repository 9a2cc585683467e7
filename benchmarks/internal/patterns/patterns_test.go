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
						calls.Fill(i)
						if err := calls.Do(i); err != nil || calls.Wrong(i) > 0 {
							return fmt.Errorf("%s, %d bytes: %d wrong, %w", x.Name, size, calls.Wrong(i), err)
						}
						calls.Fill(i)
						r, err := calls.Begin(i)
						if err == nil {
							_, err = r.Wait()
						}
						if err != nil || calls.Wrong(i) > 0 {
							return fmt.Errorf("%s, %d bytes: %d wrong, %w", x.Nonblocking(), size, calls.Wrong(i), err)
						}
					}
				}
			}
			return nil
		})
	}
}

// A check sees what did not arrive, what is of another repetition, and one wrong element.
func TestCheck(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		for _, x := range All {
			if !x.Sized() {
				continue
			}
			calls := x.On(&Buffers{C: c, Size: 48})
			calls.Fill(1)
			unmoved, err := mpi.AllreduceValue(c, calls.Wrong(1), mpi.Sum)
			if err != nil {
				return err
			}
			if err := calls.Do(1); err != nil {
				return err
			}
			stale, err := mpi.AllreduceValue(c, calls.Wrong(2), mpi.Sum)
			if err != nil || unmoved == 0 || stale == 0 {
				return fmt.Errorf("%s: %d wrong before it, %d of another repetition, %w", x.Name, unmoved, stale, err)
			}
		}
		return nil
	})
	block := make([]byte, 300)
	Fill(block, 1, 2, 3)
	block[299]++
	if n := Wrong(block, 1, 2, 3); n != 1 {
		t.Errorf("%d wrong bytes, one was changed", n)
	}
}
