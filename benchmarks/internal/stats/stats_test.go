package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestQuantile(t *testing.T) {
	v := []float64{5, 1, 4, 2, 3}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.25, 2}, {0.5, 3}, {0.625, 3.5}, {1, 5}} {
		if got := Quantile(v, c.q); got != c.want {
			t.Errorf("quantile %g is %g, want %g", c.q, got, c.want)
		}
	}
	if v[0] != 5 {
		t.Error("the input was sorted")
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is a number")
	}
	if got := Median([]float64{1, 2}); got != 1.5 {
		t.Errorf("median of 1 and 2 is %g", got)
	}
	if got := Spread(v); got != 2.0/3 {
		t.Errorf("spread %g, want 2/3", got)
	}
}

func TestRatios(t *testing.T) {
	got := Ratios([]float64{2, 9, 1}, []float64{1, 3})
	if len(got) != 2 || got[0] != 2 || got[1] != 3 {
		t.Errorf("ratios %v", got)
	}
}

// Of intervals drawn from a known distribution most hold its median, and they
// shrink with the number of values.
func TestInterval(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const rounds = 40
	held, width := 0, map[int]float64{}
	for _, n := range []int{10, 100} {
		for range rounds {
			v := make([]float64, n)
			for i := range v {
				v[i] = random.NormFloat64()
			}
			lo, hi := Interval(v)
			if lo <= 0 && 0 <= hi {
				held++
			}
			width[n] += (hi - lo) / rounds
		}
	}
	if held < 72 {
		t.Errorf("%d of 80 intervals of 95 %% hold the median", held)
	}
	if width[100] > width[10]/2 {
		t.Errorf("mean width %g with 10 values, %g with 100", width[10], width[100])
	}
}
