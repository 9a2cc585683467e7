package sim

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// caughtWithin is how many seeds there are to catch a mutant in.
const caughtWithin = 20_000

// rare lists seeds with which the hunt begins, for mutants that few seeds catch. Where a change of the simulator gives these seeds other schedules it only takes longer.
var rare = map[Mutant]uint64{linesNotAwaited: 9390, quietWithPut: 3516, pendingNotSeen: 3376}

// TestMutants breaks one rule after the other. Each must violate an invariant
// in one of so many seeds, in which the unbroken code violates none.
func TestMutants(t *testing.T) {
	for m := None + 1; m < mutants; m++ {
		t.Run(m.String(), func(t *testing.T) {
			s, err := hunt(m)
			if err == nil {
				t.Fatalf("not caught in %d seeds", caughtWithin)
			}
			t.Logf("caught by %.300v", err)
			if _, err := Run(Options{Seed: s}); err != nil {
				t.Fatalf("the unbroken code fails, too: %v", err)
			}
		})
	}
}

// hunt returns the lowest seed that catches the mutant, from where the hunt begins and as far as the goroutines that look for it have come.
func hunt(m Mutant) (seed uint64, err error) {
	var mu sync.Mutex
	var next atomic.Uint64
	next.Store(max(rare[m], 1) - 1)
	var found atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for s := next.Add(1); s < rare[m]+caughtWithin && !found.Load(); s = next.Add(1) {
				_, e := Run(Options{Seed: s, Mutant: m})
				if e == nil {
					continue
				}
				found.Store(true)
				mu.Lock()
				if err == nil || s < seed {
					seed, err = s, e
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return seed, err
}
