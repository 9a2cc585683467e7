package main

import (
	"bytes"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/examples/internal/apptest"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func program(devices int) apptest.Program {
	return func(c *mpi.Comm, out io.Writer) error { return waves(c, 20, 20, devices, out) }
}

// Whatever ranks and devices there are, the result is the same, bit for bit.
func TestWaves(t *testing.T) {
	digest := ""
	for ranks, devices := range map[int]int{1: 1, 2: 2, 3: 1, 4: 7} {
		var out bytes.Buffer
		mpitest.Run(t, ranks, func(c *mpi.Comm) error { return program(devices)(c, &out) })
		at := bytes.Index(out.Bytes(), []byte("digest"))
		if at < 0 || digest != "" && out.String()[at:] != digest {
			t.Fatalf("%d ranks with %d devices each print\n%swant %s", ranks, devices, out.String(), digest)
		}
		digest = out.String()[at:]
	}
}

func TestLarge(t *testing.T) {
	apptest.Large(t, func(c *mpi.Comm, out io.Writer) error { return waves(c, 300, 300, 2, out) }, 1, 4)
}

func TestRestart(t *testing.T) { apptest.Restarts(t, program(2), 2, 6) }

// Restarts have other numbers of ranks and devices.
func TestResize(t *testing.T) {
	mpitest.Resize(t, 2, []int{2, 3, 1}, func(c *mpi.Comm) error {
		devices := 2
		if cr.On(c).Restarted() {
			devices = c.Size()
		}
		return program(devices)(c, io.Discard)
	})
}

// What is lost or gained is found.
func TestCheck(t *testing.T) {
	before := []float64{100, 0, 0, 500}
	if wrong := check(before, []float64{100, 0, 0, 400}); wrong != nil {
		t.Errorf("a loss of energy alone: %v", wrong)
	}
	for i, v := range []float64{99, 1, -1, 501} {
		after := slices.Clone(before)
		if after[i] = v; check(before, after) == nil {
			t.Errorf("%v after %v passes", after, before)
		}
		if after[i] = math.NaN(); check(before, after) == nil {
			t.Errorf("%v passes", after)
		}
	}
}
