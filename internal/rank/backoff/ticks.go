package backoff

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Ticks are when the background goroutine looks in while the program computes. A tick wakes a
// thread, twice, and stops a rank for some 40 us on a virtual CPU. So ticks come less and less
// often while they find nothing to do. If a program begins to compute for long after it has called
// for a while, that is noticed later by one pause at most. The holder of the engine's lock calls
// all methods but Pause.
type Ticks struct {
	Calls uint64 // counted by the engine

	tick  time.Duration
	hold  time.Duration // the longest pause while batches begin
	most  time.Duration // the longest pause
	pause atomic.Int64  // until the next tick, from tick to most
	seen  uint64        // Calls at the last tick
	last  uint64        // Calls at the tick before
	began atomic.Bool   // a batch has begun since the last tick
	left  bool          // the last tick found a batch that its caller had left
	soon  atomic.Bool   // something is to be done soon
}

// With a tick every millisecond, heat on 2 ranks took 3.7 instead of 2.7 us a step outside
// computation, with one every 8 ms 4.7 instead of 3.5 (EPYC 9004). With 8 and 64 ranks on 2 CPUs a
// step took 50 and 315 instead of 43 and 241 us.
const (
	shortest = time.Millisecond
	maxHold  = 8 * shortest
	maxTick  = 64 * shortest
)

// manyCalls is the number of calls between two ticks above which the cost of each call matters.
const manyCalls = 1000

// Set sets the ticks by how many ranks are on the machine. Ranks that share a CPU with many others
// do everything less often.
func (t *Ticks) Set(c Config) {
	t.tick, t.hold = shortest, maxHold
	if c.crowded() {
		t.tick = min(maxHold, shortest*time.Duration(1+c.Ranks/8))
		t.hold *= time.Duration(max(1, c.Ranks/(4*runtime.NumCPU())))
	}
	t.most = max(maxTick, t.hold)
	t.pause.Store(int64(t.tick))
}

// Pause is the time until the next tick.
func (t *Ticks) Pause() time.Duration { return time.Duration(t.pause.Load()) }

// Bounds returns the longest pauses, for Missed.
func (t *Ticks) Bounds() (hold, most time.Duration) { return t.hold, t.most }

// Batch notes that a batch has begun. It reports whether the next tick should come soon: if the
// last batch was left to a tick, or if the next tick may be far away. Most programs end their
// batches themselves, by waiting.
func (t *Ticks) Batch() (soon bool) {
	if !t.began.Load() {
		t.began.Store(true)
	}
	return t.left || t.Pause() > t.hold
}

// Soon makes the next tick come soon. It reports whether the background goroutine must be woken
// for that.
func (t *Ticks) Soon() (longer bool) {
	if !t.soon.Load() {
		t.soon.Store(true)
	}
	if t.Pause() <= t.tick {
		return false
	}
	t.pause.Store(int64(t.tick))
	return true
}

// Missed notes a tick at which another goroutine was inside the engine. It needs no lock: hold and
// most are Bounds as they were. While something is to be done soon, the pause stays as it is.
func (t *Ticks) Missed(hold, most time.Duration) {
	if !t.soon.Load() {
		t.pause.Store(int64(t.later(hold, most)))
	}
}

// later is the pause after a tick that found nothing to do, or could do nothing. A batch that has
// begun may be left by the goroutine that was inside.
func (t *Ticks) later(hold, most time.Duration) time.Duration {
	if t.began.Load() {
		most = hold
	}
	return min(2*t.Pause(), most)
}

// Begin begins a tick, at which a batch was left or not. It reports whether there were many calls
// since the last tick.
func (t *Ticks) Begin(left bool) (many bool) {
	t.last, t.seen, t.left = t.seen, t.Calls, left
	return t.Calls-t.last > manyCalls
}

// Idle reports whether no caller has entered since the last tick.
func (t *Ticks) Idle() bool { return t.last == t.Calls }

// End ends a tick and sets the time until the next.
func (t *Ticks) End() {
	pause := t.later(t.hold, t.most)
	if t.left || t.soon.Load() || t.Idle() {
		pause = t.tick
	}
	t.pause.Store(int64(pause))
	t.began.Store(false)
	t.soon.Store(false)
}
