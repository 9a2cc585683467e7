package trace

import (
	"time"

	"golang.org/x/sys/unix"
)

// Backoff waits a little longer each time. The kernel has no wait for a stop
// with a time limit; a wait without one would hang the thread with the tracee.
// Sleeping, unlike yielding, lets the tracer run at once when its time comes,
// even where many processes want the processor.
type Backoff struct {
	tries int
	since time.Time
}

// long tells that it has taken more than a moment, now and then.
func (b *Backoff) long() bool { return b.tries%16 == 15 }

// Sleep reports false once limit is over.
func (b *Backoff) Sleep(limit time.Duration) bool {
	b.tries++
	if b.tries <= 12 {
		return true
	}
	now := time.Now()
	if b.since.IsZero() {
		b.since = now
	}
	waited := now.Sub(b.since)
	if waited > limit {
		return false
	}
	t := unix.NsecToTimespec(int64(min(max(waited/4, 15*time.Microsecond), 2*time.Millisecond)))
	unix.Nanosleep(&t, nil)
	return true
}
