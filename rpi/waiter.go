package rpi

import (
	"runtime"
	"time"
)

// ChanWaiter is a Waiter for transports inside one process.
type ChanWaiter struct {
	woken chan struct{}
	timer *time.Timer
}

// NewChanWaiter returns a Waiter that sleeps on a channel.
func NewChanWaiter() *ChanWaiter { return &ChanWaiter{woken: make(chan struct{}, 1)} }

// Wake makes the present or the next Wait return.
func (w *ChanWaiter) Wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// Yield lets other goroutines run.
func (w *ChanWaiter) Yield() { runtime.Gosched() }

// Wait returns when Wake was called, or after d (d < 0: no limit).
func (w *ChanWaiter) Wait(d time.Duration) {
	if d < 0 {
		<-w.woken
		return
	}
	if w.timer == nil {
		w.timer = time.NewTimer(d)
	} else {
		w.timer.Reset(d)
	}
	select {
	case <-w.woken:
		w.timer.Stop()
	case <-w.timer.C:
	}
}
