package backoff

import (
	"testing"
	"time"
)

// A few long yields in a row make a rank move, a single one does not. The longer this goes on, the
// less often it moves.
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

// slow yields to a process that runs for a while.
type slow struct{}

func (slow) Yield() {
	for begun := time.Now(); time.Since(begun) < 2*longYield; {
	}
}

// A rank that waits on a shared CPU is told to move, unless ranks share CPUs anyway.
func TestMoveOff(t *testing.T) {
	for _, c := range []struct{ ranks, moves int }{{1, 1}, {10_000, 0}} {
		moves := 0
		var p Backoff
		p.Init(Config{Ranks: c.ranks, MoveOff: func() { moves++ }})
		for waits := 0; waits == 0 || moves < c.moves; waits++ {
			// one is enough unless the system ran somebody else for all the while
			for s := (Spell{}); p.Rest(&s, slow{}); {
			}
		}
		if c.moves == 0 && moves > 0 {
			t.Errorf("%d ranks on the machine: %d moves", c.ranks, moves)
		}
	}
}
