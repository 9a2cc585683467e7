package rpi_test

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/gorun-mpi/gorun/rpi"
)

// A caller that waits flushes: what it waits for may be over with that. Here it
// waits for a send that finds room while it polls, and then is held by the module;
// so is a small message after it, for which there is a flush.
func TestFlushEndsWait(t *testing.T) {
	for name, wait := range map[string]func(e *rpi.Engine, r rpi.Request) error{
		"before the caller is on the list": func(e *rpi.Engine, r rpi.Request) error {
			_, err := e.Wait(r, nil)
			return err
		},
		"before the leader sleeps": func(e *rpi.Engine, r rpi.Request) error {
			_, err := e.WaitAny([]rpi.Request{r}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeNet(t, 2)
			e := f.engines()[0]
			m := f.modules[0]
			f.hold, f.window = true, 1
			var held rpi.Request
			for i, n := range []int{8, 1000, 8} {
				r := must(t)(e.Isend(1, ctx, 1, bytesType, make([]byte, n), rpi.Standard))
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
		stop func(t *testing.T, e *rpi.Engine) rpi.Request
		want error
	}{
		"inactive": {func(*testing.T, *rpi.Engine) rpi.Request { return rpi.Request{} }, nil},
		"failed": {func(t *testing.T, e *rpi.Engine) rpi.Request {
			r := must(t)(e.Irecv(1, 5, 0, nil, nil))
			if err := e.Cancel(r); err != nil {
				t.Fatal(err)
			}
			return r
		}, rpi.ErrCanceled},
		"stale": {func(t *testing.T, e *rpi.Engine) rpi.Request {
			r := must(t)(e.Isend(1, 5, 0, nil, nil, rpi.Standard))
			if _, err := e.Wait(r, nil); err != nil {
				t.Fatal(err)
			}
			other := must(t)(e.Isend(1, 5, 0, nil, nil, rpi.Standard)) // most likely in its place
			t.Cleanup(func() {
				if _, err := e.Wait(other, nil); err != nil {
					t.Error("another operation:", err)
				}
			})
			return r
		}, rpi.ErrRequest},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFakeNet(t, 2).engines()[0]
			type own struct { // of which the handles are parts
				_ [3]int32
				r rpi.Request
				_ bool
			}
			var rs [7]own
			for i := range rs {
				if i == 3 {
					rs[i].r = c.stop(t, e)
				} else {
					rs[i].r = must(t)(e.Isend(1, 5, 0, nil, nil, rpi.Standard))
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
				if _, err := e.Wait(rs[i].r, nil); i != 3 && !errors.Is(err, rpi.ErrRequest) {
					t.Errorf("request %d was waited for twice: %v", i, err)
				}
			}
		})
	}
}
