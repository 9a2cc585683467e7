package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// TestPlans checks that a plan does not ask for what its own ranks cannot do: a request
// that fails for that is no violation of the protocol.
func TestPlans(t *testing.T) {
	found := 0
	for seed := range uint64(20_000) {
		p := newPlan(rand.New(rand.NewPCG(seed, 0)))
		if !p.unregistered {
			continue
		}
		found++
		for _, q := range p.requests {
			if q.mode == oob.ModeSelf {
				t.Fatalf("seed %d: a portable image is asked for where nothing is registered", seed)
			}
		}
	}
	if found == 0 {
		t.Fatal("no plan without registered variables")
	}
}
