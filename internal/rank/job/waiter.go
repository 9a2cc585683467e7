package job

import (
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/rpi"
)

// newWaiter returns the waiter in which an engine over these modules sleeps.
func newWaiter(modules []rpi.Module) rpi.Waiter {
	var all []rpi.Waiter
	for _, m := range modules {
		if w, ok := m.(rpi.Waiter); ok {
			all = append(all, w)
		}
	}
	switch len(all) {
	case 0:
		return rpi.NewChanWaiter()
	case 1:
		return all[0]
	}
	w := &jointWaiter{Waiter: all[0]}
	for _, of := range all[1:] {
		w.lookouts = append(w.lookouts, newLookout(of, all[0]))
	}
	return w
}

// jointWaiter is for modules that sleep in different ways, such as a word in shared memory and an epoll
// descriptor. The engine sleeps in the first module's Waiter. While it sleeps, a lookout sleeps in each of the
// others. A rank that is awake polls by itself and is not disturbed.
type jointWaiter struct {
	rpi.Waiter
	lookouts []*lookout
}

// Wait is rpi.Waiter's.
func (w *jointWaiter) Wait(d time.Duration) {
	for _, l := range w.lookouts {
		l.post()
	}
	w.Waiter.Wait(d)
}

// stop ends the lookouts. The Waiters are still open. From now on only the first one wakes the engine.
func (w *jointWaiter) stop() {
	for _, l := range w.lookouts {
		l.stop()
	}
}

// stopWaiter ends what belongs to a waiter besides its module.
func stopWaiter(w rpi.Waiter) {
	if j, ok := w.(*jointWaiter); ok {
		j.stop()
	}
}

// lookout is a goroutine that sleeps in one Waiter and wakes another.
type lookout struct {
	in, wakes rpi.Waiter
	posted    atomic.Bool   // it sleeps in its Waiter, or is about to
	due       chan struct{} // capacity 1
	over      chan struct{} // closed: it is to end
	ended     chan struct{}
}

func newLookout(in, wakes rpi.Waiter) *lookout {
	l := &lookout{in: in, wakes: wakes, due: make(chan struct{}, 1), over: make(chan struct{}), ended: make(chan struct{})}
	go l.run()
	return l
}

// post makes it look out until something happens. It may already do so.
func (l *lookout) post() {
	if !l.posted.Swap(true) {
		l.due <- struct{}{}
	}
}

func (l *lookout) run() {
	defer close(l.ended)
	for {
		select {
		case <-l.due:
		case <-l.over:
		}
		select {
		case <-l.over: // also if both were ready: the wake-up of stop may have been used up
			return
		default:
		}
		l.in.Wait(-1)
		// In this order: a goroutine that still finds it posted is woken.
		l.posted.Store(false)
		l.wakes.Wake()
	}
}

func (l *lookout) stop() {
	close(l.over)
	l.in.Wake()
	<-l.ended
}
