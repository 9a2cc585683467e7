package main

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// exact is the sum of terms with 2,200 bits, rounded once: the reference.
func exact(terms []float64) float64 {
	sum := new(big.Float).SetPrec(2200)
	for _, x := range terms {
		sum.Add(sum, new(big.Float).SetPrec(2200).SetFloat64(x))
	}
	v, _ := sum.Float64()
	return v
}

// anyFloat draws finite numbers, with a liking for the ends of the range and for
// terms that cancel.
func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) float64 {
			v := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return 1
			}
			return v
		}),
		rapid.SampledFrom([]float64{0, 1, -1, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64,
			0x1p-1022, -0x1p-1022, 0x1p-1023, math.MaxFloat64, -math.MaxFloat64, 1 + 0x1p-52, -1 - 0x1p-52, 0x1p53, 0x1p-53}),
	)
}

// The sum is the correctly rounded one, split and merged in any way.
func TestAccumulatorIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := rapid.SliceOf(anyFloat()).Draw(t, "terms")
		cut := rapid.IntRange(0, len(terms)).Draw(t, "cut")
		var a, b accumulator
		for _, x := range terms[:cut] {
			a.add(x)
		}
		for _, x := range terms[cut:] {
			b.add(x)
		}
		for i := range a {
			a[i] += b[i]
		}
		got, want := a.value(), exact(terms)
		if got != want {
			t.Fatalf("sum %g (%x), want %g (%x)", got, math.Float64bits(got), want, math.Float64bits(want))
		}
	})
}

func TestAccumulatorNotFinite(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		var a accumulator
		a.add(1)
		a.add(x)
		if v := a.value(); !math.IsNaN(v) {
			t.Errorf("1 + %g gives %g, want NaN", x, v)
		}
	}
}

func BenchmarkDot(b *testing.B) {
	x, y := make([]float64, 4096), make([]float64, 4096)
	for i := range x {
		x[i], y[i] = 1/float64(i+1), float64(i)-2000.5
	}
	b.SetBytes(int64(16 * len(x)))
	for b.Loop() {
		var a accumulator
		a.addDot(x, y)
		if a.value() == 0 {
			b.Fatal("zero")
		}
	}
}
