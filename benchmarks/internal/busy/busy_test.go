package busy

import (
	"testing"
	"time"
)

// The work is done whole, however it is cut into pieces, and there is a call between all of them.
func TestPieces(t *testing.T) {
	l := Calibrate()
	if l.perSecond <= 0 {
		t.Fatalf("%v units a second", l.perSecond)
	}
	calls := 0
	if took := l.In(time.Millisecond, 8, func() { calls++ }); took <= 0 || calls != 7 {
		t.Errorf("%v, %d calls between 8 pieces", took, calls)
	}
	if x, y := work(10), work(11); x == y || x < 0.5 || x > 1 {
		t.Errorf("10 units give %v, 11 give %v", x, y)
	}
	if took := l.For(0); took < 0 {
		t.Error(took)
	}
}
