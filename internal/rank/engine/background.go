package engine

import (
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/backoff"
)

// background is the goroutine that makes progress while the program computes.
//
// It ticks while the program is in and out of the library (backoff.Ticks), and then only flushes
// batches. After a tick without a call it leads: it sleeps in the Waiter and serves what arrives.
// The next caller that waits takes the lead from it, at the price of one Wake. While a caller
// leads, it parks until that caller leaves without a successor. So neither a ping-pong nor an idle
// rank wakes it.
type background struct {
	manual  bool
	ticks   backoff.Ticks
	parked  bool        // sleeping on kick alone
	urgent  atomic.Bool // tick at once
	closing bool
	kick    chan struct{} // capacity 1
	done    chan struct{}
}

func (b *background) init(cfg Config) {
	b.manual = cfg.Manual
	b.kick = make(chan struct{}, 1)
	b.ticks.Set(cfg.pace())
}

// wakeForBatch makes the background goroutine tick, for a batch that has begun.
func (e *Engine) wakeForBatch() {
	if e.back.ticks.Batch() {
		e.wakeSoon()
	} else {
		e.wakeBackground()
	}
}

// wakeSoon makes the background goroutine tick soon.
func (e *Engine) wakeSoon() {
	if b := &e.back; b.ticks.Soon() {
		token(b.kick)
	}
	e.wakeBackground()
}

// wakeBackground makes the background goroutine tick again.
func (e *Engine) wakeBackground() {
	b := &e.back
	switch {
	case b.parked:
		b.parked = false
		token(b.kick)
	case e.lead == leadBackground:
		e.lead = leadNobody
		if e.inWait.Load() {
			e.waiter.Wake()
		}
	}
}

// expect makes the background goroutine lead if no caller does, because arriving frames go on with
// a plan, or close a channel of Notify. A caller that waits for a channel must not wait for a tick
// as well, so then it leads at once. For a plan it leads at its next tick, which comes soon: a
// program that begins a plan and waits for it right away pays for no wake, and one that computes
// for longer than a tick before it begins one finds the goroutine leading.
func (e *Engine) expect() {
	b := &e.back
	if e.lead != leadNobody || b.manual {
		return
	}
	late := b.ticks.Soon()
	if len(e.told) != 0 {
		b.urgent.Store(true)
	} else if !late && !b.parked {
		return
	}
	b.parked = false
	token(b.kick)
}

// runBackground runs the background goroutine. It is given the longest pauses, as reading them
// here would take the lock.
func (e *Engine) runBackground(hold, most time.Duration) {
	b := &e.back
	defer close(b.done)
	timer := time.NewTimer(b.ticks.Pause())
	defer timer.Stop()
	for {
		did := goOn
		// A caller that is inside carries out due work. Waiting for it would make it step aside,
		// and its goroutine might go on in the thread that came to look, on the CPU of another
		// rank.
		if e.mu.tryLock() {
			did = e.tick()
			hold, most = b.ticks.Bounds()
			e.mu.unlock()
		} else {
			b.ticks.Missed(hold, most)
		}
		switch did {
		case ended:
			return
		case parked:
			if <-b.kick; b.urgent.Swap(false) {
				continue
			}
		}
		timer.Reset(b.ticks.Pause())
		select {
		case <-timer.C:
		case <-b.kick:
		}
	}
}

// ticked is what the background goroutine does after a tick.
type ticked uint8

const (
	goOn   ticked = iota
	parked        // sleep until kicked
	ended
)

// tick carries out due work and sets the time until the next one. The lock is held.
func (e *Engine) tick() (did ticked) {
	b := &e.back
	if b.closing {
		return ended
	}
	left := e.dirty != 0
	if left {
		e.flush()
	}
	if b.ticks.Begin(left) {
		e.mu.loosen()
	}
	if e.lead == leadCaller && (e.inWait.Load() || b.ticks.Idle()) {
		b.parked = true
		did = parked
	} else if (b.ticks.Idle() || e.expecting != 0) && e.lead == leadNobody {
		e.leadBackground()
	}
	if b.closing {
		return ended
	}
	if e.expecting != 0 {
		b.ticks.Soon()
	}
	b.ticks.End()
	return did
}

// leadBackground serves what arrives until a caller takes over, something was
// batched or the engine closes.
func (e *Engine) leadBackground() {
	e.lead = leadBackground
	for e.lead == leadBackground && !e.back.closing {
		moved := e.poll()
		switch {
		case e.works.head != nil:
			e.work()
		case moved:
			e.woke = false
			e.stepAside()
		default:
			e.sleep(-1)
		}
	}
	if e.lead == leadBackground {
		e.lead = leadNobody
	}
	e.handOver()
}

func (e *Engine) stopBackground() {
	b := &e.back
	if b.manual || b.done == nil {
		return
	}
	e.mu.lock()
	b.closing = true
	e.wakeBackground()
	token(b.kick)
	e.mu.unlock()
	<-b.done
}
