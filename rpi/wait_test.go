package rpi_test

import (
	"testing"

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
