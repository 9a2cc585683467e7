package head

import (
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
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

// A user who swaps is answered when the ranks go on in other processes, as after a restart: those of before answer no more.
func TestSwapOfARankThatIsRestarted(t *testing.T) {
	var got control.Reply
	h := &head{swaps: map[uint64]*swapping{1: {open: map[int32]bool{0: true, 2: true}, timer: time.NewTimer(time.Hour), last: func(r control.Reply) { got = r }}}}
	h.dropSwaps([]int{0, 1}, "has moved")
	if got.Done != nil {
		t.Fatalf("rank 2 has not answered, and the user is told %+v", got.Done.Swapped)
	}
	h.dropSwaps([]int{0, 1, 2}, "was restarted")
	if got.Done == nil || len(got.Done.Swapped.Errors) != 2 || !strings.Contains(got.Done.Swapped.Errors[1], "rank 2 was restarted") || len(h.swaps) != 0 {
		t.Errorf("%+v", got.Done)
	}
}
