package backoff

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const poll = 500 * time.Nanosecond

// cpu is the CPU of one rank, as a system shares it out: who gives it away gets it back when those
// have run to whom it was given.
type cpu struct {
	now    time.Time
	others time.Duration // how long others run that get it
	ranks  time.Duration // how long ranks of the job do
	yields int
	lost   time.Duration
	rank   Backoff
}

func newCPU(ranks int) *cpu {
	c := &cpu{now: time.Unix(1, 0), ranks: 2 * time.Microsecond}
	c.rank.now = func() time.Time { return c.now }
	c.rank.Init(Config{Ranks: ranks, Hurry: func() {}})
	return c
}

func (c *cpu) Yield() {
	c.yields++
	took := c.ranks + c.others
	c.lost += took
	c.now = c.now.Add(took)
}

// waits is one wait, in which nothing comes. It returns how long the rank has spun.
func (c *cpu) waits() (spun time.Duration) {
	begun, before := c.now, c.lost
	for s := (Spell{}); ; {
		c.now = c.now.Add(poll)
		if !c.rank.Rest(&s, c) {
			return c.now.Sub(begun) - (c.lost - before)
		}
	}
}

// For how long a rank waits awake, then asleep, then awake again.
func (c *cpu) lives(d, sleep time.Duration) (longest time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		longest = max(longest, c.waits())
		c.now = c.now.Add(sleep)
	}
	return longest
}

// Beside a stranger a rank hardly gives away its CPU, spins no longer than an answer takes, and sleeps.
// When the stranger has gone, it waits as before.
func TestStranger(t *testing.T) {
	for _, ranks := range []int{1, 10_000} {
		rapid.Check(t, func(t *rapid.T) {
			c := newCPU(ranks)
			sleep := time.Duration(rapid.IntRange(100, 5000).Draw(t, "sleep in us")) * time.Microsecond
			before := newCPU(ranks)
			quiet := before.waits()
			if before.yields == 0 {
				t.Fatal("a rank that does not let another one on its CPU run")
			}
			c.others = time.Duration(rapid.IntRange(800, 8000).Draw(t, "slice in us")) * time.Microsecond
			c.lives(100*time.Millisecond+10*c.others, sleep) // it is met
			c.yields, c.lost = 0, 0
			begun := c.now
			longest := c.lives(500*time.Millisecond, sleep)
			if longest > 2*spinBeside {
				t.Errorf("beside a stranger a rank spins for %v", longest)
			}
			if passed := c.now.Sub(begun); c.lost > passed/4+2*c.others {
				t.Errorf("%v of %v given to a stranger, in %d yields", c.lost, passed, c.yields)
			}
			c.others, c.now = 0, c.now.Add(2*lastStay)
			c.lives(10*time.Millisecond, sleep)
			c.yields = 0
			if spun := c.waits(); spun != quiet || c.yields != before.yields {
				t.Errorf("after a stranger a rank spins %v and yields %d times, not %v and %d", spun, c.yields, quiet, before.yields)
			}
		})
	}
}

// A rank that shares its CPU with ranks gives it to them within a poll, and sleeps after a bounded number of
// yields, whatever else is there. So ranks of one job never keep the CPU from one another.
func TestNeverStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCPU(10_000)
		for range rapid.IntRange(1, 200).Draw(t, "waits") {
			c.others = time.Duration(rapid.SampledFrom([]int{0, 0, 30, 600, 4000}).Draw(t, "others run for us")) * time.Microsecond
			c.yields = 0
			if spun := c.waits(); spun > (yields+1)*poll {
				t.Fatalf("a rank has polled for %v with %d yields", spun, c.yields)
			}
			if c.yields > yields {
				t.Fatalf("%d yields", c.yields)
			}
		}
	})
}

// What runs now and then is no stranger to ranks that share CPUs.
func TestNow(t *testing.T) {
	c := newCPU(10_000)
	for range 100 {
		c.others = 2 * time.Millisecond
		c.rank.yield(c.now, c)
		c.others = 0
		c.lives(2*span, 100*time.Microsecond)
		if c.rank.stranger.here(c.now) {
			t.Fatal("what runs each 40 ms for 2 ms is taken for a stranger")
		}
	}
}

// Each time that a stranger is met the rank asks to be run soon.
func TestHurry(t *testing.T) {
	for _, ranks := range []int{1, 10_000} {
		c, asked := newCPU(ranks), 0
		c.rank.Init(Config{Ranks: ranks, Hurry: func() { asked++ }})
		c.lives(time.Second, time.Millisecond)
		if asked != 0 {
			t.Errorf("%d ranks on the machine, no stranger: asked %d times", ranks, asked)
		}
		c.others = 3 * time.Millisecond
		c.lives(2*time.Second, time.Millisecond)
		if asked == 0 || asked > 40 {
			t.Errorf("%d ranks on the machine: asked %d times in 2 s", ranks, asked)
		}
	}
}

// Ranks that find each other asleep with each message share a CPU. Those whose peer has no CPU now
// and then do not.
func TestSleeps(t *testing.T) {
	for _, x := range []struct {
		every   time.Duration
		low, up int
	}{{spinBeside + 50*time.Microsecond, 50, 100}, {4 * time.Millisecond, 0, 0}} {
		var n neighbour
		now, moves := time.Unix(1, 0), 0
		for end := now.Add(time.Second); now.Before(end); now = now.Add(x.every) {
			if n.sleeps(now) {
				moves++
			}
		}
		if moves < x.low || moves > x.up {
			t.Errorf("a sleep each %v: %d moves in a second, not %d to %d", x.every, moves, x.low, x.up)
		}
	}
}
