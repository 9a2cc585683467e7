package rpi

import (
	"runtime"
	"time"
)

// background is the goroutine that makes progress while the program computes.
//
// It ticks while the program is in and out of the library: it then only flushes
// batches. The ticks come less and less often while there are none, for each of
// them costs a wake-up of a thread. After a tick without a call it leads, that
// is, it sleeps in the Waiter and serves what arrives; the next caller that
// waits takes the lead from it at the price of one Wake. While a caller leads it
// parks, until that one leaves with nobody to hand over to. So neither a
// ping-pong nor an idle rank wakes it.
type background struct {
	manual  bool
	tick    time.Duration
	pause   time.Duration // until the next tick, from tick to most
	most    time.Duration
	epoch   uint64 // counts calls
	seen    uint64 // epoch at the last tick
	left    bool   // the last tick found a batch that its caller had left
	soon    bool   // something is to be done soon
	parked  bool   // sleeping on kick alone
	closing bool
	kick    chan struct{} // capacity 1
	done    chan struct{}
}

const (
	tick    = time.Millisecond
	maxTick = 8 * tick
)

// manyCalls are so many from one tick to the next that what each of them costs
// matters.
const manyCalls = 1000

func (b *background) init(cfg Config) {
	b.manual = cfg.Manual
	b.kick = make(chan struct{}, 1)
	b.keepTime(&cfg)
}

// keepTime sets the ticks. Each takes a CPU from somebody for about 10 us; ranks
// that share one with many others do everything less often.
func (b *background) keepTime(cfg *Config) {
	b.tick, b.most = tick, maxTick
	if cfg.crowded() {
		b.tick = min(maxTick, tick*time.Duration(1+cfg.local()/8))
		b.most = maxTick * time.Duration(max(1, cfg.local()/(4*runtime.NumCPU())))
	}
	b.pause = b.tick
}

// wakeForBatch makes the background goroutine tick, for a batch that has begun: soon,
// if the last one was left to it. Most programs flush theirs themselves, by a wait.
func (e *Engine) wakeForBatch() {
	if e.back.left {
		e.wakeSoon()
	} else {
		e.wakeBackground()
	}
}

// wakeSoon makes the background goroutine tick soon.
func (e *Engine) wakeSoon() {
	b := &e.back
	b.soon = true
	if b.pause > b.tick {
		b.pause = b.tick
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

// runBackground begins with the times that there were at the start: to read them here
// would take the lock.
func (e *Engine) runBackground(pause, most time.Duration) {
	b := &e.back
	defer close(b.done)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		did := goOn
		// Who is inside does what is due. To wait for that one would make it step
		// aside, and its goroutine might go on on the thread that came to look, on the
		// CPU of another rank.
		if pause = min(2*pause, most); e.mu.tryLock() {
			did, pause = e.tick()
			most = b.most
			e.mu.unlock()
		}
		switch did {
		case ended:
			return
		case parked:
			<-b.kick
		}
		timer.Reset(pause)
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

// tick does what is due and returns the time until the next one. The lock is held.
func (e *Engine) tick() (did ticked, pause time.Duration) {
	b := &e.back
	last := b.seen
	b.seen = b.epoch
	if b.closing {
		return ended, 0
	}
	if b.left = e.dirty != 0; b.left {
		e.flush()
	}
	if b.epoch-last > manyCalls {
		e.mu.loosen()
	}
	if e.lead == leadCaller && (e.inWait.Load() || last == b.epoch) {
		b.parked = true
		did = parked
	} else if last == b.epoch && e.lead == leadNobody {
		e.leadBackground()
	}
	if b.closing {
		return ended, 0
	}
	b.pause = min(2*b.pause, b.most)
	if b.left || b.soon || last == b.epoch {
		b.pause = b.tick
	}
	b.soon = false
	return did, b.pause
}

// leadBackground serves what arrives until a caller takes over, something was
// batched or the engine closes.
func (e *Engine) leadBackground() {
	e.lead = leadBackground
	for e.lead == leadBackground && !e.back.closing {
		if e.poll() {
			e.woke = false
			e.stepAside()
			continue
		}
		e.sleep(-1)
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
