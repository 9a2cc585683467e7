package lease

import (
	"fmt"
	"time"
)

// Terms are what holder and granter of a lease have agreed on.
type Terms struct {
	L time.Duration // how long a lease is
	H time.Duration // how often a holder asks: the heartbeat
}

// DefaultTerms are those of a job whose user has not chosen others.
var DefaultTerms = Terms{L: 15 * time.Second, H: time.Second}

// Shortest is the shortest lease that Check allows: with a shorter one the margin
// exceeds the gain, and a busy machine misses its heartbeats.
const Shortest = 3 * time.Second

// Check reports what is wrong with t.
func (t Terms) Check() error {
	switch {
	case t.L < Shortest:
		return fmt.Errorf("a lease of %v is too short: give %v or more", t.L, Shortest)
	case t.H < time.Millisecond || t.H > t.L/6:
		return fmt.Errorf("a lease of %v asked for every %v: it must be asked for at least six times", t.L, t.H)
	}
	return nil
}

// drift is the part of a second by which two clocks may differ in a second: 1/drift.
const drift = 100

// settle is how long, in milliseconds, a node may take from the end of its lease to the
// end of its ranks
const settle = 1000

// length is L in milliseconds.
func (t Terms) length() int64 { return t.L.Milliseconds() }

// Fence is how long after a grant the holder can still act, by the granter's clock. The
// successor of a granter waits as long after the last moment at which that one could grant a
// lease.
func (t Terms) Fence() time.Duration { return time.Duration(t.fence()) * time.Millisecond }

func (t Terms) fence() int64 {
	l := t.length()
	return l + (l+drift-1)/drift + settle
}
