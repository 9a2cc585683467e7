package shm

import (
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
	"github.com/gorun-mpi/gorun/rpi"
)

// A rank that sees large chunks take long to copy has the kernel copy long messages, for a while.
// One slow copy does not count, and short messages are not affected.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		name   string
		direct int
		took   time.Duration // of every nth copy that is timed
		every  int
		want   bool
	}{
		{"far", directApart, 7 * time.Microsecond, 1, true},
		{"near", directApart, 3 * time.Microsecond, 1, false},
		{"interrupted", directApart, time.Millisecond, 2, false},
		{"never", directNever, 7 * time.Microsecond, 1, false},
		{"always", 1, 3 * time.Microsecond, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2)
			defer w.Close()
			now, looks := time.Unix(0, 0), 0
			w.M[1].now = func() time.Time { // begin, end, begin, end ...
				if looks++; looks%2 == 0 && looks/2%c.every == 0 {
					now = now.Add(c.took)
				}
				return now
			}
			w.M[1].params.direct = c.direct
			h := rpi.Header{Kind: rpi.Data, Req: 1, Len: 1 << 20}
			payload := make([]byte, h.Len)
			for len(w.S[1].Got[0]) == 0 {
				if h.Len != 0 && moduletest.Offer(w.M[0], 1, &h, payload, 1, false) != rpi.Full {
					h.Len = 0
				}
				w.M[0].Poll()
				w.M[1].Poll()
			}
			publish := func(n int) bool {
				w.M[1].now = func() time.Time { return now }
				key, ok := w.M[1].Publish(0, payload[:n])
				if ok {
					w.M[1].Withdraw(0, key)
				}
				return ok
			}
			if got := publish(apartMin); got != c.want {
				t.Errorf("the kernel copies: %v", got)
			}
			if got := publish(apartMin - 1); got != (c.direct == 1) {
				t.Errorf("the kernel copies less: %v", got)
			}
			now = now.Add(apartFor)
			if got := publish(apartMin); got != (c.direct == 1) {
				t.Errorf("the kernel copies later: %v", got)
			}
		})
	}
}
