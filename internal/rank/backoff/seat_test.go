package backoff

import (
	"testing"
	"time"
)

// roamer is a rank that is moved about.
type roamer struct {
	seating
	away         bool
	looks, backs int
	now          time.Time
}

func newRoamer() *roamer {
	r := &roamer{now: time.Now()}
	r.Seat = (*roaming)(r)
	return r
}

type roaming roamer

func (r *roaming) Go() bool {
	r.looks++
	was := r.away
	r.away = false
	return was
}

func (r *roaming) Back() { r.away, r.backs = true, r.backs+1 }

func (r *roaming) SharedWith(int) bool { return false }

// takes lets so much time pass in turns, in each of which a yield takes so long.
func (r *roamer) takes(passes, yield time.Duration) (looks, backs int) {
	r.looks, r.backs = 0, 0
	for turn, end := 0, r.now.Add(passes); r.now.Before(end); turn++ {
		if turn%seatEvery == 0 {
			r.look(r.now)
		}
		r.now = r.now.Add(yield)
		if r.trial {
			r.yielded(yield, r.now)
		}
	}
	return r.looks, r.backs
}

// A rank at its seat looks every 10 ms. A rank that the system always moves away goes to its seat less and
// less often. A rank that meets a program at its seat that does not yield goes back at once.
func TestSeating(t *testing.T) {
	const short, long = 20 * time.Microsecond, 3 * time.Millisecond
	r := newRoamer()
	if looks, backs := r.takes(time.Second, short); looks < 50 || looks > 100 || backs != 0 {
		t.Errorf("at its seat: %d looks and %d ways back in a second", looks, backs)
	}
	r.away = true
	if _, backs := r.takes(time.Second, short); backs != 0 || r.away {
		t.Errorf("among ranks that yield: %d ways back, away: %v", backs, r.away)
	}
	r = newRoamer()
	moves := 0
	for end := r.now.Add(10 * time.Second); r.now.Before(end); moves += r.looks {
		r.away = true
		r.takes(seatEvery*short, short)
	}
	if moves < 120 || moves > 135 { // 10, 20, 40, 80, 80 ms ...
		t.Errorf("%d moves in 10 s of a rank that is moved away each time", moves)
	}
	r = newRoamer()
	r.away = true
	looks, backs := r.takes(100*time.Second, long) // at 0, 0.04, 0.4, 1.6, 7, 27, 91 s
	if looks != 7 || backs != looks || !r.away {
		t.Errorf("beside a stranger: %d moves and %d ways back in 100 s, away: %v", looks, backs, r.away)
	}
}

// Only ranks that share CPUs look where they are, and not before each turn.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		ranks int
		turn  uint64
		looks int
	}{{1, seatEvery, 0}, {10_000, seatEvery, 1}, {10_000, 1, 0}} {
		r := newRoamer()
		var p Backoff
		p.Init(Config{Ranks: c.ranks, Seat: r.Seat})
		p.Turn(c.turn)
		if r.looks != c.looks {
			t.Errorf("turn %d of %d ranks on the machine: %d looks", c.turn, c.ranks, r.looks)
		}
	}
}
