package job

import (
	"errors"
	"testing"
)

// An attempt that ends after the rank has failed does not make it well.
func TestFailureOutlivesAttempt(t *testing.T) {
	j := &Job{}
	j.points.init()
	if err := j.Point(); err != nil {
		t.Fatal(err)
	}
	j.points.arm(origin{attempt: 1})
	broken := errors.New("broken")
	j.points.fail(broken)
	j.points.disarm()
	if err := j.Point(); !errors.Is(err, broken) {
		t.Errorf("the next Point says %v", err)
	}
}
