package flush

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// All that move bytes at the same time share the rate. What was not moved in idle time is not made up for.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		var all sync.WaitGroup
		began := time.Now()
		for range 4 {
			all.Go(func() {
				for range 2 {
					if err := p.Wait(t.Context(), 100, 100); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("800 bytes at 100 a second took %v", took)
		}
		time.Sleep(time.Hour)
		began = time.Now()
		if err := p.Wait(t.Context(), 50, 100); err != nil || time.Since(began) != time.Second/2 {
			t.Errorf("50 bytes after an hour took %v, %v", time.Since(began), err)
		}
		if err := p.Wait(t.Context(), 1<<40, 0); err != nil || time.Since(began) != time.Second/2 {
			t.Errorf("without a limit: %v, %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Wait(ctx, 1<<40, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
