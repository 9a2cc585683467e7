package engine_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// A caller that waits flushes: what it waits for may be over with that. Here it
// waits for a send that finds room while it polls, and then is held by the module;
// so is a small message after it, for which there is a flush.
func TestFlushEndsWait(t *testing.T) {
	for name, wait := range map[string]func(e *engine.Engine, r engine.Request) error{
		"before the caller is on the list": func(e *engine.Engine, r engine.Request) error {
			_, err := e.Wait(r, nil)
			return err
		},
		"before the leader sleeps": func(e *engine.Engine, r engine.Request) error {
			_, err := e.WaitAny([]engine.Request{r}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeNet(t, 2)
			e := f.engines()[0]
			m := f.modules[0]
			f.hold, f.window = true, 1
			var held engine.Request
			for i, n := range []int{8, 1000, 8} {
				r := must(t)(e.Isend(1, ctx, 1, bytesType, make([]byte, n), engine.Standard))
				if i == 1 {
					held = r
				}
			}
			m.notes = append(m.notes, func() { f.window = 0; m.sink.Writable(1) })
			over := false
			m.flushing = func() {
				if sent := f.modules[1].wire[0]; len(sent) == 3 && !over {
					m.sink.Sent(1, sent[1].ref)
					over = true
				}
			}
			m.arming = func() {
				if over {
					t.Error("it sleeps although the send is over")
				}
			}
			if err := wait(e, held); err != nil {
				t.Error(err)
			}
			if !over {
				t.Error("it has not flushed")
			}
			if who := e.Blocked(); who != "" {
				t.Error("still waiting:", who)
			}
		})
	}
}

// A row of operations ends before the first of which only Wait can tell: one that goes on,
// that has failed, that there is none of, or whose handle is stale, also where another
// operation has its place by now; and that one is left as it is.
func TestWaitsStop(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(t *testing.T, e *engine.Engine) engine.Request
		want error
	}{
		"inactive": {func(*testing.T, *engine.Engine) engine.Request { return engine.Request{} }, nil},
		"failed": {func(t *testing.T, e *engine.Engine) engine.Request {
			r := must(t)(e.Irecv(1, 5, 0, nil, nil))
			if err := e.Cancel(r); err != nil {
				t.Fatal(err)
			}
			return r
		}, engine.ErrCanceled},
		"stale": {func(t *testing.T, e *engine.Engine) engine.Request {
			r := must(t)(e.Isend(1, 5, 0, nil, nil, engine.Standard))
			if _, err := e.Wait(r, nil); err != nil {
				t.Fatal(err)
			}
			other := must(t)(e.Isend(1, 5, 0, nil, nil, engine.Standard)) // most likely in its place
			t.Cleanup(func() {
				if _, err := e.Wait(other, nil); err != nil {
					t.Error("another operation:", err)
				}
			})
			return r
		}, engine.ErrRequest},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFakeNet(t, 2).engines()[0]
			type own struct { // of which the handles are parts
				_ [3]int32
				r engine.Request
				_ bool
			}
			var rs [7]own
			for i := range rs {
				if i == 3 {
					rs[i].r = c.stop(t, e)
				} else {
					rs[i].r = must(t)(e.Isend(1, 5, 0, nil, nil, engine.Standard))
				}
			}
			waits := e.BeginWaits()
			done := waits.Done(&rs[0].r, unsafe.Sizeof(rs[0]), len(rs))
			_, err := waits.Wait(rs[3].r, nil)
			left := waits.Done(&rs[4].r, unsafe.Sizeof(rs[0]), len(rs)-4)
			waits.End()
			if done != 3 || !errors.Is(err, c.want) || left != 3 {
				t.Errorf("%d are over, then %v, then %d", done, err, left)
			}
			for i := range rs {
				if _, err := e.Wait(rs[i].r, nil); i != 3 && !errors.Is(err, engine.ErrRequest) {
					t.Errorf("request %d was waited for twice: %v", i, err)
				}
			}
		})
	}
}

// restless counts how its engine passes the time.
type restless struct {
	rpi.Waiter
	yields, waits atomic.Int64
}

func (w *restless) Yield()               { w.yields.Add(1); w.Waiter.Yield() }
func (w *restless) Wait(d time.Duration) { w.waits.Add(1); w.Waiter.Wait(d) }

// A rank that was woken for nothing sleeps again at once. Of a thousand waiting ranks, each of which
// looks once a second whether the others live, there is always one that wakes.
func TestSleepsOn(t *testing.T) {
	w := &restless{Waiter: rpi.NewChanWaiter()}
	e := engine.New(engine.Config{Rank: 0, Size: 1, Waiter: w, Local: 1000, Manual: true})
	e.Start()
	over := make(chan error)
	go func() {
		_, err := e.Recv(0, ctx, 1, bytesType, make([]byte, 8), nil)
		over <- err
	}()
	asleep := func(times int64) {
		for w.waits.Load() < times {
			runtime.Gosched()
		}
	}
	asleep(1)
	before := w.yields.Load()
	for i := range int64(20) {
		w.Wake()
		asleep(2 + i)
	}
	if n := w.yields.Load() - before; n != 0 {
		t.Errorf("%d yields after 20 sleeps", n)
	}
	if err := e.Send(0, ctx, 1, bytesType, make([]byte, 8), engine.Standard, nil); err != nil {
		t.Error(err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
