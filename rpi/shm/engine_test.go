package shm

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
)

// Engines over this module: every rank exchanges messages of all protocols with
// every other and takes turns, while gates are closed, counts compared and the channels found
// empty, from before the first connection on.
func TestEnginesWithCheckpoints(t *testing.T) {
	if !rpi.Checkpointing {
		t.Skip("built without checkpointing")
	}
	const n, rounds, checkpoints = 4, 25, 12
	before := descriptors(t)
	engines := make([]*rpi.Engine, n)
	modules := make([]*Module, n)
	addrs := make([][]byte, n)
	for i := range n {
		modules[i] = New()
		engines[i] = rpi.New(rpi.Config{Rank: i, Size: n, Modules: []rpi.Module{modules[i]}})
		e := env(i, n)
		e.Sink = engines[i].Sink(0)
		var err error
		if addrs[i], err = modules[i].Start(e); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range modules {
		if err := m.Peers(addrs); err != nil {
			t.Fatal(err)
		}
		engines[i].Start()
	}

	var wg sync.WaitGroup
	errs := make(chan error, 2*n)
	for i, e := range engines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := exchange(e, i, n, rounds); err != nil {
				errs <- fmt.Errorf("rank %d: %w", i, err)
				for _, e := range engines {
					e.Abort(err)
				}
			}
		}()
	}
	takeTurns(t, engines, 100, &wg, errs)
	for range checkpoints {
		cut(t, engines)
	}
	wg.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	cut(t, engines)
	for _, e := range engines {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Fatalf("%d descriptors before, %d after", before, after)
	}
}

// exchange sends to and receives from every other rank, sizes differing by
// round from nothing to several frames.
func exchange(e *rpi.Engine, rank, n, rounds int) error {
	sizes := []int{0, 8, 5000, 60000, 70000, 600000}
	typ := &rpi.Type{ID: 8, Size: 1, Name: "uint8"}
	for round := range rounds {
		size := sizes[round%len(sizes)]
		var sends []rpi.Request
		for k := 1; k < n; k++ {
			to := (rank + k) % n
			r, err := e.Isend(to, 1, int32(round), typ, pattern(round*n+rank, size), rpi.Standard)
			if err != nil {
				return err
			}
			sends = append(sends, r)
		}
		for k := 1; k < n; k++ {
			from := (rank + n - k) % n
			p := make([]byte, size)
			if _, err := e.Recv(from, 1, int32(round), typ, p, nil); err != nil {
				return err
			}
			if !bytes.Equal(p, pattern(round*n+from, size)) {
				return fmt.Errorf("round %d: message from %d differs", round, from)
			}
		}
		for _, r := range sends {
			if _, err := e.Wait(r, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut closes all gates, one after the other, drains, and opens them again.
func cut(t *testing.T, engines []*rpi.Engine) { closeAll(t, engines)() }

// closeAll closes all gates, one after the other, and drains; open opens them.
func closeAll(t *testing.T, engines []*rpi.Engine) (open func()) {
	for _, e := range engines {
		e.CloseGate()
		e.Quiesce()
	}
	drained := func() bool {
		for i, e := range engines {
			if e.Step(); !e.Quiet() {
				return false
			}
			for j, other := range engines {
				if e.Received()[j] != other.Sent()[i] {
					return false
				}
			}
		}
		return true
	}
	for begin := time.Now(); !drained(); {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the channels do not drain")
		}
	}
	for i, e := range engines {
		if e.Step() || !e.Quiet() {
			t.Errorf("rank %d: something was still in flight", i)
		}
	}
	return func() {
		for _, e := range engines {
			e.OpenGate()
		}
	}
}
