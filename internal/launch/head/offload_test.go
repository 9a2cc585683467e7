package head

import (
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/launch/control"
)

// The last answer to a swap may come when its limit is over: the user is answered once.
func TestSwapEndsOnce(t *testing.T) {
	answers := 0
	h := &head{swaps: map[uint64]*swapping{1: {timer: time.NewTimer(time.Hour), last: func(control.Reply) { answers++ }}}}
	h.endSwap(1)
	h.endSwap(1)
	if answers != 1 {
		t.Errorf("the user has %d answers", answers)
	}
}
