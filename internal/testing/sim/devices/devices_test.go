package devices

import (
	"bytes"
	"flag"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	schedules = flag.Int("sim.schedules", 2000, "number of schedules of package sim: here a quarter of them, 2000 at least")
	seed      = flag.Uint64("sim.seed", 0, "replay this seed with a transcript")
	mutant    = flag.String("sim.mutant", "", "replay with the rule of this name broken")
)

// sweep runs seeds from 1 until one fails.
func sweep(n int, m Mutant) (total Seen, seed uint64, err error) {
	var mu sync.Mutex
	var next atomic.Uint64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for s := next.Add(1); s <= uint64(n) && !stop.Load(); s = next.Add(1) {
				seen, e := Run(Options{Seed: s, Mutant: m})
				mu.Lock()
				total.Add(seen)
				if e != nil && (err == nil || s < seed) {
					seed, err = s, e
					stop.Store(true)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return total, seed, err
}

// TestSchedules runs many seeds. The last of them must have come across everything that the simulator is for: above all deaths of everybody in every
// state of the protocol.
func TestSchedules(t *testing.T) {
	total, seed, err := sweep(max(2000, *schedules/4), None)
	if err != nil {
		t.Fatalf("%v\nreplay: go test ./internal/testing/sim/devices -run TestReplay -v -sim.seed=%d", err, seed)
	}
	t.Log(&total)
	if lacks := total.Lacks(); len(lacks) > 0 {
		t.Errorf("in %d schedules there were no %s", total.Schedules, strings.Join(lacks, "; "))
	}
}

// TestMutants breaks one rule after the other. Each must be found out by a seed in which the unbroken code breaks nothing.
func TestMutants(t *testing.T) {
	for m := None + 1; m < mutants; m++ {
		t.Run(m.String(), func(t *testing.T) {
			_, seed, err := sweep(20_000, m)
			if err == nil {
				t.Fatal("not caught")
			}
			t.Logf("caught by %.300v", err)
			if _, err := Run(Options{Seed: seed}); err != nil {
				t.Fatalf("the unbroken code fails, too: %v", err)
			}
		})
	}
}

// TestReplay prints the transcript of one seed: -sim.seed, and -sim.mutant.
func TestReplay(t *testing.T) {
	if *seed == 0 {
		t.Skip("no -sim.seed")
	}
	m := None
	for i, name := range mutantNames {
		if name == *mutant {
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
	for s := range uint64(100) {
		var a, b bytes.Buffer
		for _, log := range []*bytes.Buffer{&a, &b} {
			if _, err := Run(Options{Seed: s, Log: log}); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) || a.Len() == 0 {
			t.Fatalf("seed %d has two transcripts, or none", s)
		}
	}
}
