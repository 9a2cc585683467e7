package moduletest

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/rpi"
)

// Collect measures a garbage collection while n ranks of a process wait for a
// message, all asleep in their modules.
func Collect[Module Waits](b *testing.B, n int, build func(rank int) Module) {
	var asleep atomic.Int32
	j := NewJob(b, n, build, Options{Config: func(c *engine.Config) {
		c.Waiter = &counted{c.Modules[0].(rpi.Waiter), &asleep}
	}})
	defer j.Close()
	for rank := range n {
		j.Go(rank, func(e *engine.Engine) error {
			_, err := e.Recv(engine.AnySource, 0, 0, Bytes, nil, nil)
			return err
		})
	}
	idle := func(e *engine.Engine) bool { return e.Blocked() == "" }
	for slices.ContainsFunc(j.Engines, idle) || int(asleep.Load()) < n {
		runtime.Gosched()
	}
	for b.Loop() {
		runtime.GC()
	}
	for i, e := range j.Engines {
		if err := e.Send((i+1)%n, 0, 0, Bytes, nil, engine.Standard, nil); err != nil {
			b.Fatal(err)
		}
	}
	j.Wait()
}

// counted is a Waiter that tells how many sleep.
type counted struct {
	rpi.Waiter
	asleep *atomic.Int32
}

// Wait counts the caller as long as it is in Wait.
func (w *counted) Wait(d time.Duration) {
	w.asleep.Add(1)
	defer w.asleep.Add(-1)
	w.Waiter.Wait(d)
}
