package moduletest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// Bytes is the datatype of the messages of these tests.
var Bytes = &engine.Type{ID: 8, Size: 1, Name: "uint8"}

// Options of a Job.
type Options struct {
	Env    func(*rpi.Env)       // changes what modules are told; nil: nothing
	Config func(*engine.Config) // changes how engines are made; nil: nothing
}

// Job is a job in one process whose ranks have engines, each over one module.
type Job[Module rpi.Module] struct {
	T       testing.TB
	Modules []Module         // by rank
	Engines []*engine.Engine // by rank

	opt         Options
	addrs       [][]byte
	incarnation uint64
	callers     sync.WaitGroup
	failing     sync.Once
	failure     error
}

// NewJob makes engines over the modules that build makes for n ranks, and starts
// them. Somebody must call Close.
func NewJob[Module rpi.Module](t testing.TB, n int, build func(rank int) Module, opt Options) *Job[Module] {
	t.Helper()
	j := &Job[Module]{
		T: t, Modules: make([]Module, n), Engines: make([]*engine.Engine, n), opt: opt, addrs: make([][]byte, n),
	}
	for i := range n {
		j.Modules[i] = build(i)
		c := engine.Config{Rank: i, Size: n, Modules: []rpi.Module{j.Modules[i]}}
		if opt.Config != nil {
			opt.Config(&c)
		}
		j.Engines[i] = engine.New(c)
		j.begin(i, j.Modules[i].Start)
	}
	j.meet()
	for _, e := range j.Engines {
		e.Start()
	}
	return j
}

// begin starts or restarts the module of rank i in the present incarnation.
func (j *Job[Module]) begin(i int, start func(rpi.Env) ([]byte, error)) {
	j.T.Helper()
	e := Env(i, len(j.Engines))
	e.Sink, e.Incarnation, e.Secret = j.Engines[i].Sink(0), j.incarnation, fmt.Append(nil, "secret ", j.incarnation)
	if j.opt.Env != nil {
		j.opt.Env(&e)
	}
	var err error
	if j.addrs[i], err = start(e); err != nil {
		j.T.Fatal(err)
	}
}

// meet tells all modules the addresses of all: each must reach all others.
func (j *Job[Module]) meet() {
	j.T.Helper()
	for i, m := range j.Modules {
		if err := m.Peers(j.addrs); err != nil {
			j.T.Fatal(err)
		}
		for k := range j.Modules {
			if l, ok := rpi.Module(m).(rpi.LocalModule); ok {
				if err := l.Unreached(k); err != nil {
					j.T.Fatal(err)
				}
			}
			if k != i && !m.Reaches(k) {
				j.T.Fatalf("rank %d does not reach rank %d", i, k)
			}
		}
	}
}

// Close closes all engines.
func (j *Job[Module]) Close() {
	for _, e := range j.Engines {
		if err := e.Close(); err != nil {
			j.T.Error(err)
		}
	}
}

// Go lets a goroutine call the engine of a rank. If the call fails, all engines are
// aborted, and Wait fails the test.
func (j *Job[Module]) Go(rank int, call func(e *engine.Engine) error) {
	j.callers.Go(func() {
		if err := call(j.Engines[rank]); err != nil {
			j.failing.Do(func() { j.failure = fmt.Errorf("rank %d: %w", rank, err) })
			for _, e := range j.Engines {
				e.Abort(err)
			}
		}
	})
}

// Wait returns when all that Go has begun is over.
func (j *Job[Module]) Wait() {
	j.T.Helper()
	if j.callers.Wait(); j.failure != nil {
		j.T.Fatal(j.failure)
	}
}

// Exchange lets every rank exchange messages with every other, of sizes from nothing to several frames.
func (j *Job[Module]) Exchange(rounds int) {
	sizes := []int{0, 8, 5000, 60000, 70000, 600000}
	j.ExchangeOf(rounds, func(_, _, round int) int { return sizes[round%len(sizes)] })
}

// ExchangeOf is Exchange with messages of any sizes. size is called by both ends, once for each message.
func (j *Job[Module]) ExchangeOf(rounds int, size func(from, to, round int) int) {
	for rank := range j.Engines {
		j.Go(rank, func(e *engine.Engine) error { return exchange(e, rank, len(j.Engines), rounds, size) })
	}
}

// exchange sends to and receives from every other rank.
func exchange(e *engine.Engine, rank, n, rounds int, size func(from, to, round int) int) error {
	for round := range rounds {
		var sends []engine.Request
		for k := 1; k < n; k++ {
			to := (rank + k) % n
			r, err := e.Isend(to, 1, int32(round), Bytes, Pattern(round*n+rank, size(rank, to, round)), engine.Standard)
			if err != nil {
				return err
			}
			sends = append(sends, r)
		}
		for k := 1; k < n; k++ {
			from := (rank + n - k) % n
			p := make([]byte, size(from, rank, round))
			if _, err := e.Recv(from, 1, int32(round), Bytes, p, nil); err != nil {
				return err
			}
			if !bytes.Equal(p, Pattern(round*n+from, len(p))) {
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

// CloseGates closes all gates, one after the other, and drains; open opens them.
func (j *Job[Module]) CloseGates() (open func()) {
	j.T.Helper()
	for _, e := range j.Engines {
		e.CloseGate()
		e.Quiesce()
	}
	for begin := time.Now(); !j.drained(); {
		if time.Since(begin) > patience {
			j.T.Fatal("the channels do not drain")
		}
	}
	// A step may still find a timer, or what a network has doubled; nothing may come of it.
	received := make([][]uint64, len(j.Engines))
	for i, e := range j.Engines {
		received[i] = slices.Clone(e.Received())
	}
	for i, e := range j.Engines {
		if e.Step(); !e.Quiet() || !slices.Equal(e.Received(), received[i]) {
			j.T.Errorf("rank %d: something was still in flight over %s (quiet: %t, received: %d, then %d)", i, j.Modules[i].Name(), e.Quiet(), received[i], e.Received())
		}
	}
	return func() {
		for _, e := range j.Engines {
			e.OpenGate()
		}
	}
}

// drained makes each rank take a step: one may need another's for its own. It reports whether all have received what was
// sent to them.
func (j *Job[Module]) drained() bool {
	quiet := true
	for _, e := range j.Engines {
		e.Step()
		quiet = e.Quiet() && quiet
	}
	if !quiet {
		return false
	}
	for i, e := range j.Engines {
		for k, other := range j.Engines {
			if e.Received()[k] != other.Sent()[i] {
				return false
			}
		}
	}
	return true
}
