package head

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The time in which a job is suspended is none of what -timeout leaves it.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool
		l := limit{left: time.Minute, over: func() { over.Store(true) }}
		wait := func(d time.Duration, want bool) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if over.Load() != want {
				t.Errorf("over: %v", !want)
			}
		}
		l.start()
		wait(40*time.Second, false)
		l.stop()
		l.stop()
		wait(time.Hour, false)
		l.start()
		wait(19*time.Second, false)
		wait(2*time.Second, true)
		l.stop()
	})
	none := limit{}
	none.start() // a job without -timeout
	none.stop()
}
