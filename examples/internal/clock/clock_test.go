package clock

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// The time outside of the parts belongs to the loop.
func TestClock(t *testing.T) {
	var out bytes.Buffer
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		var k Clock
		if err := k.Start(c); err != nil {
			return err
		}
		for range 10 {
			k.Leave()
			if err := mpi.Barrier(c); err != nil {
				return err
			}
			k.Return()
		}
		k.Stop()
		return k.Print(c, &out)
	})
	var loop, outside float64
	if _, err := fmt.Sscanf(out.String(), "time loop %f\ntime outside %f\n", &loop, &outside); err != nil || !(outside > 0 && outside <= loop) {
		t.Errorf("%q: %v", out.String(), err)
	}
}
