package job

import (
	"testing"

	"github.com/gorun-mpi/gorun/rpi"
)

// TestLookoutStops stops a lookout that has just been woken and is due again.
func TestLookoutStops(t *testing.T) {
	for range 200 { // which of two ready channels is taken is random
		in := rpi.NewChanWaiter()
		l := &lookout{in: in, wakes: rpi.NewChanWaiter(), due: make(chan struct{}, 1), over: make(chan struct{}), ended: make(chan struct{})}
		l.post()
		close(l.over)
		go l.run()
		<-l.ended
	}
}
