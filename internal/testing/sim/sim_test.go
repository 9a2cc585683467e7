package sim

import (
	"bytes"
	"flag"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	schedules = flag.Int("sim.schedules", 2000, "number of schedules; CI runs 3,000")
	seed      = flag.Uint64("sim.seed", 0, "replay this seed with a transcript")
	mutant    = flag.String("sim.mutant", "", "replay with the rule of this name broken")
)

// TestMain makes the collector run seldom: a schedule's heap is small, and there are thousands of them.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

// TestSchedules runs many seeds. The last of them must have come across
// everything that the simulator is for.
func TestSchedules(t *testing.T) {
	n := *schedules
	total := sweep(t, n, None)
	t.Log(&total)
	for i, p := range total.counts() {
		if n >= 2000 && *p == 0 {
			t.Errorf("in %d schedules there were no %s", n, seenNames[i])
		}
	}
}

func sweep(t *testing.T, n int, m Mutant) Seen {
	var total Seen
	var mu sync.Mutex
	var next atomic.Uint64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var sum Seen
			for s := next.Add(1); s <= uint64(n) && !t.Failed(); s = next.Add(1) {
				seen, err := Run(Options{Seed: s, Mutant: m})
				if err != nil {
					t.Errorf("%v\nreplay: go test ./internal/testing/sim -run TestReplay -v -sim.seed=%d", err, s)
				}
				sum.Add(seen)
			}
			mu.Lock()
			total.Add(sum)
			mu.Unlock()
		})
	}
	wg.Wait()
	return total
}

// TestReplay prints the transcript of one seed: -sim.seed, and -sim.mutant.
func TestReplay(t *testing.T) {
	if *seed == 0 {
		t.Skip("no -sim.seed")
	}
	m := None
	for i, name := range mutantNames {
		if strings.EqualFold(name, *mutant) {
			m = Mutant(i)
		}
	}
	if *mutant != "" && m == None {
		t.Fatalf("no mutant %q", *mutant)
	}
	if _, err := Run(Options{Seed: *seed, Mutant: m, Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
}

// TestDeterministic runs seeds twice: a failing one must replay.
func TestDeterministic(t *testing.T) {
	for s := range uint64(200) {
		var a, b bytes.Buffer
		for _, log := range []*bytes.Buffer{&a, &b} {
			if _, err := Run(Options{Seed: s, Log: log}); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("seed %d has two transcripts", s)
		}
		if a.Len() == 0 {
			t.Fatalf("seed %d has no transcript", s)
		}
	}
}
