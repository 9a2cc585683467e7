package rpi

import (
	"testing"
	"time"
)

// A few long yields one after the other make a rank move, a single one does not, and
// the longer it goes on the less often.
func TestNeighbour(t *testing.T) {
	var n neighbour
	now := time.Now()
	count := func(yields int, took ...time.Duration) (moves int) {
		for i := range yields {
			now = now.Add(took[i%len(took)])
			if n.yielded(took[i%len(took)], now) {
				moves++
			}
		}
		return moves
	}
	const short, long = 300 * time.Nanosecond, 5 * time.Microsecond
	if m := count(1000, short); m != 0 {
		t.Errorf("%d moves without a neighbour", m)
	}
	if m := count(1000, long, long, long, short); m != 0 {
		t.Errorf("%d moves for somebody who ran a while", m)
	}
	if m := count(longYields, long); m != 1 {
		t.Errorf("%d moves at first", m)
	}
	if m := count(1000, long); m != 0 { // 5 ms
		t.Errorf("%d moves at once after the first", m)
	}
	if m := count(1_000_000, long); m < 5 || m > 12 { // 5 s: 10, 20, 40 ms, ... 1 s
		t.Errorf("%d moves in 5 s", m)
	}
}

// slowWaiter yields to somebody who takes a while.
type slowWaiter struct{ Waiter }

func (slowWaiter) Yield() {
	for begun := time.Now(); time.Since(begun) < 2*longYield; {
	}
}

// Who waits on a shared CPU is told to move, but not where ranks share CPUs anyway.
func TestApart(t *testing.T) {
	for _, c := range []struct{ ranks, moves int }{{1, 1}, {10_000, 0}} {
		moves := 0
		e := New(Config{Size: 2, Local: c.ranks, Manual: true, Waiter: slowWaiter{NewChanWaiter()}, Apart: func() { moves++ }})
		e.mu.lock()
		for waits := 0; waits == 0 || moves < c.moves; waits++ {
			// one is enough unless the system ran somebody else for all the while
			for s := (spell{}); e.rest(&s); {
			}
		}
		e.mu.unlock()
		if c.moves == 0 && moves > 0 {
			t.Errorf("%d ranks on the machine: %d moves", c.ranks, moves)
		}
		e.Close()
	}
}
