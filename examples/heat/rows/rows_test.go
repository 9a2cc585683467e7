package main

import (
	"bytes"
	"testing"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// The digest is that of examples/heat, on any number of ranks and on several in turn.
func TestRows(t *testing.T) {
	const want = "result heat n=16 steps=100 digest=788363a2563f4ef9\n"
	for _, size := range []int{1, 3, 20} {
		var out bytes.Buffer
		mpitest.Run(t, size, func(c *mpi.Comm) error { return heat(c, 16, 100, 0, &out) })
		if out.String() != want {
			t.Errorf("%d ranks: got %q, want %q", size, out.String(), want)
		}
	}
	var out bytes.Buffer
	mpitest.Resize(t, 20, []int{4, 8, 3, 1}, func(c *mpi.Comm) error { return heat(c, 16, 100, 0, &out) })
	if out.String() != want {
		t.Errorf("4, 8, 3 and 1 ranks: got %q, want %q", out.String(), want)
	}
}
