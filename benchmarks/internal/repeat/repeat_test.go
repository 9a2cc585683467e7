package repeat

import (
	"errors"
	"testing"
	"time"
)

// A call that takes a known time is repeated as often as fits.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		each           time.Duration
		batches, count int
	}{
		{time.Microsecond, 5, 20000},
		{3 * time.Millisecond, 5, 6},
		{90 * time.Millisecond, 3, 1},
		{time.Second, 1, 1},
		{time.Nanosecond, 5, maxCount},
	} {
		calls := 0
		seconds, count, err := Batches(100*time.Millisecond, 5, func(count int) (time.Duration, error) {
			calls++
			return time.Duration(count) * c.each, nil
		})
		if err != nil || len(seconds) != c.batches || count != c.count {
			t.Errorf("%v: %d batches of %d, %v; want %d of %d", c.each, len(seconds), count, err, c.batches, c.count)
			continue
		}
		if got := seconds[0]; got < 0.999*c.each.Seconds() || got > 1.001*c.each.Seconds() {
			t.Errorf("%v: %g s", c.each, got)
		}
	}
}

// A machine that does something else once does not make the batches short.
func TestBatchesHiccup(t *testing.T) {
	calls := 0
	_, count, err := Batches(100*time.Millisecond, 5, func(count int) (time.Duration, error) {
		if calls++; calls == 1 {
			return time.Second, nil
		}
		return time.Duration(count) * time.Microsecond, nil
	})
	if err != nil || count != 20000 {
		t.Errorf("batches of %d, %v; want 20000", count, err)
	}
}

// An error in the first call or in a batch is handed on.
func TestBatchesFails(t *testing.T) {
	for _, failing := range []int{1, 9, 10} {
		calls, broken := 0, errors.New("broken")
		_, _, err := Batches(time.Second, 3, func(count int) (time.Duration, error) {
			if calls++; calls == failing {
				return 0, broken
			}
			return time.Duration(count) * time.Millisecond, nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("call %d fails: %v", failing, err)
		}
	}
}
