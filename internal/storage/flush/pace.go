package flush

import (
	"context"
	"sync"
	"time"
)

// Pace keeps bytes that several goroutines move to a rate, all together. Its zero value is ready.
type Pace struct {
	mu   sync.Mutex
	next time.Time // the bytes so far have taken until then
}

// longest bounds a wait that nobody would see the end of.
const longest = 1000 * time.Hour

// Wait waits for as long as n bytes take at a rate, after those that have been moved before; not at all if the rate is 0. Time in which nothing
// was moved is not made up for. It returns the context's cause if that ends.
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
