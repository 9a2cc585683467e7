package rpi

import (
	"testing"
	"time"
)

// Ticks come ever less often for a program that ends its batches itself, and soon
// for one that leaves them, or other work.
func TestTicks(t *testing.T) {
	e := New(Config{Size: 2, Local: 1, Manual: true})
	b := &e.back
	tick := func() time.Duration {
		e.enter()
		defer e.mu.unlock()
		_, pause := e.tick()
		return pause
	}
	for want := 2 * b.tick; want <= b.most; want *= 2 {
		e.wakeForBatch()
		if pause := tick(); pause != want {
			t.Errorf("%v after batches that were not left, not %v", pause, want)
		}
	}
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
