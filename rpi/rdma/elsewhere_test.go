package rdma

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/rdma/soft"
	"github.com/gorun-mpi/gorun/rpi/tcp"
)

// TestElsewhere has jobs go on over the network that they had, over another device, another provider, and over TCP and back, for GORUN_RDMA_SEEDS seeds. Networks
// lose, double, delay and reorder what they carry. Checkpoints come at any moment.
func TestElsewhere(t *testing.T) {
	if !engine.Checkpointing {
		t.Skip("built without checkpointing")
	}
	n := testenv.Number(t, "GORUN_RDMA_SEEDS", 40)
	if testing.Short() {
		n = min(n, 5)
	}
	for seed := range uint64(n) {
		elsewhere(t, seed)
	}
}

func elsewhere(t *testing.T, seed uint64) {
	t.Helper()
	const ranks, rounds, lives = 3, 8, 3
	rng := rand.New(rand.NewPCG(seed, 0xe15e))
	life := 0
	fabric := func() *soft.Fabric {
		life++
		f := soft.Faults{Completions: rng.IntN(60), Order: rng.IntN(2) == 0, MTU: 1000 + rng.IntN(2000)}
		if rng.IntN(3) > 0 {
			f.Lost, f.Twice, f.Late, f.Overtaken = rng.IntN(3), rng.IntN(8), rng.IntN(20), rng.IntN(20)
		}
		return soft.NewFabric(seed<<8+uint64(life), f)
	}
	first := fabric()
	j := moduletest.NewJob(t, ranks, func(int) rpi.Module { return Over(first) }, moduletest.Options{})
	defer j.Close()
	total := int64(2 * ranks * (ranks - 1) * rounds)
	var begun atomic.Int64 // sends and receives
	j.ExchangeOf(rounds, func(from, to, round int) int {
		begun.Add(1)
		r := rand.New(rand.NewPCG(seed, uint64(from<<16|to<<8|round)))
		return []int{r.IntN(64), r.IntN(5000), r.IntN(40_000)}[r.IntN(3)]
	})
	for range lives {
		for at := begun.Load() + 1 + rng.Int64N(total/lives); begun.Load() < min(at, total); {
			runtime.Gosched()
		}
		open := j.CloseGates()
		over := fmt.Sprintf("%T", j.Modules[0])
		switch way := rng.IntN(4); {
		case way == 0: // all go on
		case way == 1:
			j.Move(func(int) rpi.Module { return tcp.New() })
		case way == 2 && over != "*tcp.Module": // the same pairs, over another network
			next := fabric()
			j.Restart(func(m rpi.Module) { m.(*Module).from = next })
		case way == 2:
			next := fabric()
			j.Move(func(int) rpi.Module { return Over(next) })
		default: // over UDP
			j.Move(func(int) rpi.Module { return New() })
		}
		open()
	}
	if j.Wait(); t.Failed() {
		t.Fatalf("seed %d", seed)
	}
}
