package head

import (
	"syscall"
	"testing"
	"time"
)

// A signal that comes twice at once is one order; one that comes later, or of another kind, is the second.
func TestNewestOrder(t *testing.T) {
	var o newestOrder
	begin := time.Now()
	for i, c := range []struct {
		after time.Duration
		sig   syscall.Signal
		fresh bool
	}{
		{0, syscall.SIGTERM, true}, {time.Millisecond, syscall.SIGTERM, false}, {2 * time.Millisecond, syscall.SIGUSR1, true},
		{3 * time.Millisecond, syscall.SIGUSR1, true}, {4 * time.Millisecond, syscall.SIGINT, true},
		{sameOrder, syscall.SIGINT, false}, {sameOrder + 4*time.Millisecond, syscall.SIGINT, true},
	} {
		if got := o.fresh(c.sig, begin.Add(c.after)); got != c.fresh {
			t.Errorf("signal %d, %v after %v: a new order %v, want %v", i, c.sig, c.after, got, c.fresh)
		}
	}
}
