package control

import (
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	r := Report{Sequence: 4, Backend: "native", Ranks: 2, Bytes: 1_500_000, Base: 3, Pause: 2 * time.Millisecond, Gate: 5 * time.Millisecond, Took: time.Second}
	const want = "snapshot 4: native, 2 ranks, 1.5 MB beside snapshot 3, a rank stood still for at most 2ms, no messages for 5ms, committed after 1s"
	if got := r.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
