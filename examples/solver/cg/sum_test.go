package cg

import (
	"math"
	"math/big"
	"slices"
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

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// The sum is the correctly rounded one, split and merged in any way.
func TestAccumulatorIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		terms := rapid.SliceOf(anyFloat()).Draw(t, "terms")
		cut := rapid.IntRange(0, len(terms)).Draw(t, "cut")
		var a, b accumulator
		a.addDot(terms[:cut], ones(cut))
		b.addDot(terms[cut:], ones(len(terms)-cut))
		for i := range a {
			a[i] += b[i]
		}
		got, want := a.value(), exact(terms)
		if got != want {
			t.Fatalf("sum %g (%x), want %g (%x)", got, math.Float64bits(got), want, math.Float64bits(want))
		}
	})
}

// The digits hold the largest terms there are, as many as there may be and more.
func TestAccumulatorIsWide(t *testing.T) {
	for _, x := range []float64{math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, -1 - 0x1p-52, 1 - 0x1p-53} {
		for _, n := range []int{terms, 3*terms + 1} {
			var a accumulator
			a.addDot(slices.Repeat([]float64{x}, n), ones(n))
			a.addDot(slices.Repeat([]float64{x}, n-1), slices.Repeat([]float64{-1}, n-1))
			if got := a.value(); got != x {
				t.Errorf("%d times %g less all but one is %g", n, x, got)
			}
		}
	}
}

func TestAccumulatorNotFinite(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		var a accumulator
		a.addDot([]float64{1, x}, ones(2))
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
