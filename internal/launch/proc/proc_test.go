package proc

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	st, ok := ParseStat([]byte("17 (a) b (c)) S 5 17 17 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"))
	if !ok || st.PPID != 5 || st.Faults != 1 {
		t.Errorf("%+v %v", st, ok)
	}
	for _, s := range []string{"", "17 (a", "17 (a) S"} {
		if _, ok := ParseStat([]byte(s)); ok {
			t.Errorf("%q is understood", s)
		}
	}
	if st, ok := ReadStat(os.Getpid()); !ok || st.PPID != os.Getppid() {
		t.Errorf("own process: %+v %v", st, ok)
	}
}

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
