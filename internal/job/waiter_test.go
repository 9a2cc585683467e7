package job

import (
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
	"github.com/gorun-mpi/gorun/rpi/mem"
	"github.com/gorun-mpi/gorun/rpi/tcp"
)

// sleeper is a module that sleeps on a channel.
type sleeper struct {
	rpi.Module
	*rpi.ChanWaiter
}

// Whichever module has something wakes the one who sleeps, again and again; and
// nobody looks out while nobody sleeps.
func TestJointWaiter(t *testing.T) {
	first, second := rpi.NewChanWaiter(), rpi.NewChanWaiter()
	w := newWaiter([]rpi.Module{sleeper{nil, first}, sleeper{nil, second}})
	for _, by := range []rpi.Waiter{first, second, second, w, second, first, second} {
		by.Wake()
		w.Wait(-1)
	}
	w.Wait(0) // a time limit is the first's
	stopWaiter(w)
	second.Wake()
	second.Wait(-1) // is not taken by a lookout
	w.Wake()
	w.Wait(-1)
}

// Of modules that need no lookout none is made.
func TestPlainWaiter(t *testing.T) {
	m := mem.NewFabric(1).Module(0)
	for _, modules := range [][]rpi.Module{nil, {m}, {tcp.New()}} {
		if _, joint := newWaiter(modules).(*jointWaiter); joint {
			t.Errorf("%d modules: a joint waiter", len(modules))
		}
	}
	w := newWaiter([]rpi.Module{m, tcp.New()}) // never opened: its Wait fails at once
	w.Wait(time.Millisecond)
	stopWaiter(w)
}
