//go:build !gorun_nocr

package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
)

// elsewhere gives engines whose gates are closed the modules of a new fabric.
func elsewhere(t testing.TB, e []*engine.Engine) {
	t.Helper()
	f := mem.NewFabric(len(e))
	addrs := make([][]byte, len(e))
	for i := range e {
		var err error
		if addrs[i], err = f.Module(i).Start(rpi.Env{Rank: i, Size: len(e), Sink: e[i].Sink(0)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range e {
		if err := f.Module(i).Peers(addrs); err != nil {
			t.Fatal(err)
		}
		if err := e[i].Restarted([]rpi.Module{f.Module(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// A restart may come before the background goroutine has done anything.
func TestLocalRightAfterStart(t *testing.T) {
	for range 20 {
		for _, e := range memEngines(t, 2, false) {
			e.CloseGate()
			e.SetLocal(8)
			e.OpenGate()
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Whatever was begun over one transport ends over another, wherever the cut
// goes through it: the one before accepts one frame at a time, keeps payloads,
// delivers frames in two turns, writes directly, and has another eager limit.
func TestRestartElsewhere(t *testing.T) {
	each := 1
	if testing.Short() {
		each = 5
	}
	for steps := 0; steps < 16; steps += each {
		for kind := range 8 {
			t.Run(fmt.Sprint(steps, kind), func(t *testing.T) {
				f := newFakeNet(t, 2)
				f.window, f.hold, f.split, f.direct = kind&1, kind&1 != 0, kind&2 != 0, kind&2 != 0
				f.dual = kind&4 != 0
				f.direct = f.direct || f.dual
				e := f.engines()
				ends := begin(t, e)
				for i := range steps {
					e[i%2].Progress()
				}
				cut(t, e)
				elsewhere(t, e)
				open(e)
				ends(t)
			})
		}
	}
}

// begin starts one operation of each kind between two ranks, and returns what
// finishes and checks them.
func begin(t *testing.T, e []*engine.Engine) func(t *testing.T) {
	const big, small = 3<<20 + 5, 700
	type transfer struct {
		send, recv engine.Request
		in         []byte
	}
	var all []*transfer
	out := func(tag int32, n int, mode engine.SendMode) *transfer {
		x := &transfer{in: make([]byte, n)}
		x.send = must(t)(e[0].Isend(1, ctx, tag, bytesType, pattern(n, int(tag)), mode))
		all = append(all, x)
		return x
	}
	receive := func(x *transfer, src int, tag int32) {
		x.recv = must(t)(e[1].Irecv(src, ctx, tag, bytesType, x.in))
	}
	posted := out(1, big, engine.Standard)
	receive(posted, engine.AnySource, 1)
	late := out(2, big, engine.Synchronous)
	ssend := out(3, small, engine.Synchronous)
	probed := out(4, big, engine.Standard)
	waits := &transfer{in: make([]byte, small)}
	receive(waits, engine.AnySource, 5)
	all = append(all, waits)
	var taken engine.Message
	if m, _, ok, err := e[1].Improbe(0, ctx, 4); err != nil {
		t.Fatal(err)
	} else if ok {
		taken = m
	}
	return func(t *testing.T) {
		receive(late, 0, 2)
		receive(ssend, 0, 3)
		var err error
		if taken == (engine.Message{}) {
			drive(t, e, func() bool {
				m, _, ok, _ := e[1].Improbe(0, ctx, 4)
				taken = m
				return ok
			})
		}
		if probed.recv, err = e[1].Imrecv(taken, bytesType, probed.in); err != nil {
			t.Fatal(err)
		}
		waits.send = must(t)(e[0].Isend(1, ctx, 5, bytesType, pattern(small, 5), engine.Standard))
		for i, x := range all {
			drive(t, e, func() bool { return e[0].Done(x.send) && e[1].Done(x.recv) })
			if _, err := ended(t, e[1], x.recv); err != nil || !bytes.Equal(x.in, pattern(len(x.in), i+1)) {
				t.Fatalf("message %d: %v", i+1, err)
			}
			if _, err := ended(t, e[0], x.send); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Restarts at any moment of a traffic of many goroutines, over the same modules
// and over others in turn.
func TestRestartRacesWithCallers(t *testing.T) {
	cutAmidTraffic(t, 400, func(e []*engine.Engine) { elsewhere(t, e) })
}

// The closer answers for a rank whose callers cannot: those wait for the gate,
// also with the questions that need no message.
func TestCallersWaitForTheGate(t *testing.T) {
	e := memJob(t, 1)[0]
	e.CloseGate()
	answers := make(chan string, 3)
	go func() { answers <- fmt.Sprint("pending ", len(e.Pending())) }()
	go func() { answers <- "blocked " + e.Blocked() }()
	go func() {
		e.Inject([]engine.Saved{{Ctx: ctx, Source: 0, Tag: 4}})
		answers <- "injected"
	}()
	for range 1000 {
		if s := e.Closer().Blocked(); s != "" || len(e.Closer().Pending()) > 0 || len(answers) > 0 {
			t.Fatal("somebody got in: ", s)
		}
		runtime.Gosched()
	}
	e.OpenGate()
	for range 3 {
		t.Log(<-answers)
	}
	if _, ok, err := e.Iprobe(0, ctx, 4); err != nil || !ok {
		t.Error(ok, err)
	}
}

// A transport that does not reach everybody is no place to go on.
func TestRestartOutOfReach(t *testing.T) {
	e := memJob(t, 2)
	e[0].CloseGate()
	m := mem.NewFabric(2).Module(0) // knows of no peer
	if err := e[0].Restarted([]rpi.Module{m}, nil); !errors.Is(err, engine.ErrPeerFailed) {
		t.Error(err)
	}
	e[0].OpenGate()
}
