package proc

import "testing"

func TestSlowness(t *testing.T) {
	for text, want := range map[string]float64{
		"0.10 0.20 0.30 1/300 4711\n":   1,
		"8.00 0.20 0.30 1/300 4711\n":   4,
		"8.00 0.20 0.30 400/900 4711\n": 200,
		"":                              1,
		"NaN Inf 1 x/y":                 1,
	} {
		if got := slowness([]byte(text), 2); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if n := Slowness(); n < 1 {
		t.Errorf("here: %v", n)
	}
}
