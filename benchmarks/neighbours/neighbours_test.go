package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Each size has a line with both ratios.
func TestCompare(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		var out strings.Builder
		mpitest.Run(t, n, func(c *mpi.Comm) error { return compare(c, []int{8, 3000}, 3, time.Microsecond, &out) })
		if text := out.String(); strings.Count(text, "\n") != 3 || strings.Count(text, " .. ") != 4 {
			t.Errorf("%d ranks: %s", n, text)
		}
	}
}
