// Package busy computes for a given time, as a program does that hides messages behind its work. What it does is
// a fixed amount of arithmetic: when something takes the processor away, it takes longer.
package busy

import "time"

// Load is how fast this rank computes alone.
type Load struct {
	perSecond float64 // units
}

// unit is the least work that is done.
const unit = 256

// Calibrate measures the rank's speed, in about a millisecond. It takes the best of several times, as others may
// have used the processor meanwhile.
func Calibrate() *Load {
	const units = 400
	best := time.Duration(1<<63 - 1)
	for range 5 {
		start := time.Now()
		work(units)
		best = min(best, time.Since(start))
	}
	return &Load{units / max(best.Seconds(), 1e-9)}
}

// For computes what takes d where nothing disturbs it. It returns how long it took.
func (l *Load) For(d time.Duration) time.Duration {
	return l.In(d, 1, nil)
}

// In is For in several pieces, with a call of between after each but the last.
func (l *Load) In(d time.Duration, pieces int, between func()) time.Duration {
	start := time.Now()
	units := int(l.perSecond * d.Seconds())
	for i := range pieces {
		work(units*(i+1)/pieces - units*i/pieces)
		if between != nil && i < pieces-1 {
			between()
		}
	}
	return time.Since(start)
}

// work returns a number that depends on all of the work, so that the compiler cannot leave it out.
//
//go:noinline
func work(units int) float64 {
	x := 0.5
	for range units * unit {
		x = x*0.9999 + 0.0001
	}
	return x
}
