package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Every rank adds one to the token in every lap.
func TestRing(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5, 8} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var out bytes.Buffer
			mpitest.Run(t, size, func(c *mpi.Comm) error { return ring(c, 4, 0, &out) })
			var want strings.Builder
			for lap := 1; lap <= 4; lap++ {
				fmt.Fprintf(&want, "lap %d: the token is back and says %d\n", lap, lap*size)
			}
			if out.String() != want.String() {
				t.Errorf("got\n%swant\n%s", out.String(), want.String())
			}
		})
	}
}
