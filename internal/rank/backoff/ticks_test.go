package backoff

import (
	"testing"
	"time"
)

// Ticks come less and less often for a program that leaves nothing to them. They come somewhat
// more often for one with batches that it ends itself, and soon for one that leaves them batches
// or other work.
func TestTicks(t *testing.T) {
	b := new(Ticks)
	b.Set(Config{Ranks: 1})
	tick := func(left bool) time.Duration {
		b.Calls++
		b.Begin(left)
		b.End()
		return b.Pause()
	}
	for want := 2 * b.tick; want <= b.hold; want *= 2 {
		if b.Batch() {
			t.Error("the first batches are to be looked after soon")
		}
		if pause := tick(false); pause != want {
			t.Errorf("%v after batches that were not left, not %v", pause, want)
		}
	}
	b.Batch()
	if pause := tick(false); pause != b.hold {
		t.Errorf("%v after more of them, not %v", pause, b.hold)
	}
	b.began.Store(true)
	if pause := b.later(b.Bounds()); pause != b.hold {
		t.Errorf("%v while a batch may be left by whoever is inside, not %v", pause, b.hold)
	}
	b.began.Store(false)
	if pause := b.later(b.Bounds()); pause != 2*b.hold {
		t.Errorf("%v while somebody is inside, not %v", pause, 2*b.hold)
	}
	for want := 2 * b.hold; want <= b.most; want *= 2 {
		if pause := tick(false); pause != want {
			t.Errorf("%v without batches, not %v", pause, want)
		}
	}
	if pause := tick(false); pause != b.most {
		t.Errorf("%v at most, not %v", pause, b.most)
	}
	if !b.Batch() || !b.Soon() || tick(false) != b.tick {
		t.Error("a batch has begun, and a tick does not come soon")
	}
	if pause := tick(true); pause != b.tick {
		t.Errorf("%v after a batch that was left", pause)
	}
	if !b.Batch() || b.Soon() {
		t.Error("a batch that follows one that was left is not looked after soon")
	}
	if pause := tick(false); pause != b.tick {
		t.Errorf("%v after the next one", pause)
	}
	if pause := tick(false); pause != 2*b.tick {
		t.Errorf("%v after nothing", pause)
	}
	if !b.Soon() || tick(false) != b.tick {
		t.Error("work was left, and a tick does not come soon")
	}
	b.Soon()
	if b.Missed(b.Bounds()); b.Pause() != b.tick || b.Soon() {
		t.Errorf("%v after a tick that was missed while something is to be done", b.Pause())
	}
	b.End()
	if b.Missed(b.Bounds()); b.Pause() != 2*b.tick {
		t.Errorf("%v after a tick that was missed", b.Pause())
	}
	if b.Begin(false); !b.Idle() {
		t.Error("a tick without a call is not seen")
	}
	if b.Calls += manyCalls + 1; !b.Begin(false) || b.Idle() {
		t.Error("many calls are not seen")
	}
}
