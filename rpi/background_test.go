package rpi

import (
	"testing"
	"time"
)

// Ticks come ever less often for a program that leaves nothing to them, not quite so
// seldom for one that has batches which it ends itself, and soon for one that leaves
// them, or other work.
func TestTicks(t *testing.T) {
	e := New(Config{Size: 2, Local: 1, Manual: true})
	b := &e.back
	tick := func() time.Duration {
		e.enter()
		defer e.mu.unlock()
		e.tick()
		return b.paused()
	}
	for want := 2 * b.tick; want <= b.hold; want *= 2 {
		e.wakeForBatch()
		if pause := tick(); pause != want {
			t.Errorf("%v after batches that were not left, not %v", pause, want)
		}
	}
	e.wakeForBatch()
	if pause := tick(); pause != b.hold {
		t.Errorf("%v after more of them, not %v", pause, b.hold)
	}
	b.began.Store(true)
	if pause := b.later(b.hold, b.most); pause != b.hold {
		t.Errorf("%v while a batch may be left by whoever is inside, not %v", pause, b.hold)
	}
	b.began.Store(false)
	if pause := b.later(b.hold, b.most); pause != 2*b.hold {
		t.Errorf("%v while somebody is inside, not %v", pause, 2*b.hold)
	}
	for want := 2 * b.hold; want <= b.most; want *= 2 {
		if pause := tick(); pause != want {
			t.Errorf("%v without batches, not %v", pause, want)
		}
	}
	if pause := tick(); pause != b.most || len(b.kick) != 0 {
		t.Errorf("%v at most, not %v, and %d kicks", pause, b.most, len(b.kick))
	}
	if e.wakeForBatch(); len(b.kick) == 0 || tick() != b.tick {
		t.Error("a batch has begun, and a tick does not come soon")
	}
	<-b.kick
	e.dirty = 1
	if pause := tick(); pause != b.tick || e.dirty != 0 {
		t.Errorf("%v after a batch that was left, dirty %b", pause, e.dirty)
	}
	e.wakeForBatch()
	if pause := tick(); pause != b.tick {
		t.Errorf("%v after the next one", pause)
	}
	if pause := tick(); pause != 2*b.tick {
		t.Errorf("%v after nothing", pause)
	}
	e.wakeSoon()
	if len(b.kick) == 0 || tick() != b.tick {
		t.Error("work was left, and a tick does not come soon")
	}
}
