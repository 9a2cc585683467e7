package flush

import (
	"context"
	"sync"
	"time"
)

// Pace limits the rate of bytes that several goroutines move together. Its zero value is ready.
type Pace struct {
	mu   sync.Mutex
	next time.Time // the bytes so far have taken until then
}

// longest bounds a wait that would practically never end.
const longest = 1000 * time.Hour

// Wait waits as long as n bytes take at a rate, after those moved before. It returns at once if the
// rate is 0. Idle time is not made up for. It returns the context's cause if that ends.
func (p *Pace) Wait(ctx context.Context, n, rate int64) error {
	if rate <= 0 {
		return context.Cause(ctx)
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(min(float64(n)/float64(rate), longest.Seconds()) * float64(time.Second)))
	wait := p.next.Sub(now)
	p.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
