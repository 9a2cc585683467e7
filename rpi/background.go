package rpi

import (
	"runtime"
	"sync/atomic"
	"time"
)

// background is the goroutine that makes progress while the program computes.
//
// It ticks while the program is in and out of the library: it then only flushes
// batches. The ticks come less and less often while there are none, for each of
// them wakes a thread, twice, and stops a rank for some 40 us on a virtual CPU. So
// a program that begins to compute for long after having called for a while is
// noticed later by as long as that at most. After a tick without a call it leads,
// that is, it sleeps in the Waiter and serves what arrives; the next caller that
// waits takes the lead from it at the price of one Wake. While a caller leads it
// parks, until that one leaves with nobody to hand over to. So neither a
// ping-pong nor an idle rank wakes it.
type background struct {
	manual  bool
	tick    time.Duration
	hold    time.Duration // the longest pause while batches begin
	most    time.Duration // the longest one at all
	pause   atomic.Int64  // until the next tick, from tick to most
	epoch   uint64        // counts calls
	seen    uint64        // epoch at the last tick
	began   atomic.Bool   // a batch began since then
	left    bool          // the last tick found a batch that its caller had left
	soon    bool          // something is to be done soon
	parked  bool          // sleeping on kick alone
	closing bool
	kick    chan struct{} // capacity 1
	done    chan struct{}
}

const (
	tick    = time.Millisecond
	maxHold = 8 * tick
	maxTick = 64 * tick
)

// manyCalls are so many from one tick to the next that what each of them costs
// matters.
const manyCalls = 1000

func (b *background) init(cfg Config) {
	b.manual = cfg.Manual
	b.kick = make(chan struct{}, 1)
	b.keepTime(&cfg)
}

// keepTime sets the ticks. Ranks that share a CPU with many others do everything
// less often.
func (b *background) keepTime(cfg *Config) {
	b.tick, b.hold = tick, maxHold
	if cfg.crowded() {
		b.tick = min(maxHold, tick*time.Duration(1+cfg.local()/8))
		b.hold *= time.Duration(max(1, cfg.local()/(4*runtime.NumCPU())))
	}
	b.most = max(maxTick, b.hold)
	b.pause.Store(int64(b.tick))
}

// paused is the time until the next tick.
func (b *background) paused() time.Duration { return time.Duration(b.pause.Load()) }

// wakeForBatch makes the background goroutine tick, for a batch that has begun: soon,
// if the last one was left to it or the next tick may be far. Most programs flush
// theirs themselves, by a wait.
func (e *Engine) wakeForBatch() {
	b := &e.back
	if !b.began.Load() {
		b.began.Store(true)
	}
	if b.left || b.paused() > b.hold {
		e.wakeSoon()
	} else {
		e.wakeBackground()
	}
}

// wakeSoon makes the background goroutine tick soon.
func (e *Engine) wakeSoon() {
	b := &e.back
	b.soon = true
	if b.paused() > b.tick {
		b.pause.Store(int64(b.tick))
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

// runBackground begins with the longest pauses that there were at the start: to read them
// here would take the lock.
func (e *Engine) runBackground(hold, most time.Duration) {
	b := &e.back
	defer close(b.done)
	timer := time.NewTimer(b.paused())
	defer timer.Stop()
	for {
		did := goOn
		// Who is inside does what is due. To wait for that one would make it step
		// aside, and its goroutine might go on on the thread that came to look, on the
		// CPU of another rank.
		if e.mu.tryLock() {
			did = e.tick()
			hold, most = b.hold, b.most
			e.mu.unlock()
		} else {
			b.pause.Store(int64(b.later(hold, most)))
		}
		switch did {
		case ended:
			return
		case parked:
			<-b.kick
		}
		timer.Reset(b.paused())
		select {
		case <-timer.C:
		case <-b.kick:
		}
	}
}

// later is the pause after one in which nothing was to be done, or nothing could be: a
// batch that has begun may be left by whoever was inside.
func (b *background) later(hold, most time.Duration) time.Duration {
	if b.began.Load() {
		most = hold
	}
	return min(2*b.paused(), most)
}

// ticked is what the background goroutine does after a tick.
type ticked uint8

const (
	goOn   ticked = iota
	parked        // sleep until kicked
	ended
)

// tick does what is due and sets the time until the next one. The lock is held.
func (e *Engine) tick() (did ticked) {
	b := &e.back
	last := b.seen
	b.seen = b.epoch
	if b.closing {
		return ended
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
		return ended
	}
	pause := b.later(b.hold, b.most)
	if b.left || b.soon || last == b.epoch {
		pause = b.tick
	}
	b.pause.Store(int64(pause))
	b.began.Store(false)
	b.soon = false
	return did
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
