// Package stats holds the few statistics that the benchmarks print: medians, quantiles, and confidence
// intervals by bootstrap. Bootstrap assumes nothing about the distribution of a noisy machine's timings.
package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Median returns the middle of v, NaN if there is none. v stays as it is.
func Median(v []float64) float64 { return Quantile(v, 0.5) }

// Quantile returns the value below which the part q (0..1) of v lies, linear
// between neighbours; NaN if v is empty.
func Quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	at := q * float64(len(s)-1)
	lo := int(at)
	hi := min(lo+1, len(s)-1)
	return s[lo] + float64((at-float64(lo))*(s[hi]-s[lo]))
}

// Spread returns the distance of the quartiles of v relative to its median.
func Spread(v []float64) float64 {
	return (Quantile(v, 0.75) - Quantile(v, 0.25)) / Median(v)
}

// Ratios returns a[i]/b[i]. It compares measurements of the same round, so a drift of the machine cancels.
func Ratios(a, b []float64) []float64 {
	r := make([]float64, min(len(a), len(b)))
	for i := range r {
		r[i] = a[i] / b[i]
	}
	return r
}

// Interval returns the 95 % confidence interval of the median of v, by
// bootstrap with a fixed seed: the same v gives the same interval.
func Interval(v []float64) (lo, hi float64) {
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	const samples = 4000
	random := rand.New(rand.NewPCG(1, 2))
	medians := make([]float64, samples)
	draw := make([]float64, len(v))
	for i := range medians {
		for k := range draw {
			draw[k] = v[random.IntN(len(v))]
		}
		medians[i] = Median(draw)
	}
	return Quantile(medians, 0.025), Quantile(medians, 0.975)
}
