package rdma

import (
	"fmt"
	"os"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
)

// kinds runs a test over UDP, over a Fabric, and, if GORUN_RDMA_SEEDS is set, over some that lose, double, delay and reorder.
func kinds(t *testing.T, test func(t *testing.T, build func(int) *Module)) {
	t.Run("udp", func(t *testing.T) { test(t, func(int) *Module { return New() }) })
	t.Run("fabric", func(t *testing.T) { test(t, over(1, soft.Faults{})) })
	if os.Getenv("GORUN_RDMA_SEEDS") == "" {
		return
	}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("faults", seed), func(t *testing.T) {
			test(t, over(seed, soft.Faults{Lost: 5, Twice: 5, Late: 10, Overtaken: 10, Completions: 30, Order: true, MTU: 2000}))
		})
	}
}

// over makes modules over one Fabric.
func over(seed uint64, faults soft.Faults) func(int) *Module {
	f := soft.NewFabric(seed, faults)
	return func(int) *Module { return Over(f) }
}

func TestKinds(t *testing.T) {
	kinds(t, func(t *testing.T, build func(int) *Module) { moduletest.Kinds(t, build) })
}

func TestEnginesWithCheckpoints(t *testing.T) {
	kinds(t, func(t *testing.T, build func(int) *Module) { moduletest.Checkpoints(t, build, nil) })
}

func TestEnginesComeBack(t *testing.T) {
	kinds(t, func(t *testing.T, build func(int) *Module) {
		moduletest.ComeBack(t, build, func(*Module) {}, moduletest.Options{}, nil)
	})
}

func TestWaitAndWakeRaceWithRestart(t *testing.T) {
	m := New()
	moduletest.WaitAndWake(t, m, func() {
		m.Wait(-1)
		m.heard.Store(false)
		m.noticed.Store(false)
	})
}

var _ rpi.Module = (*Module)(nil)
