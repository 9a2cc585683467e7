package mpi

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Contributions that are combined where they lie give the bits that fold gives, for
// any number of them and any length.
func TestCombineParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n < 70; n++ {
		for _, k := range []int{0, 1, 511, 512, 513, 1500} {
			all := make([]float64, n*k)
			for i := range all {
				all[i] = rng.NormFloat64()
			}
			parts := make([][]byte, n)
			for i := range parts {
				parts[i] = bytesOf(slices.Clone(all[i*k : (i+1)*k]))
			}
			for _, op := range []Op[float64]{Sum[float64], Prod[float64], Max[float64]} {
				want, got := slices.Clone(all), make([]float64, k)
				(&collective{by: bytewiseOf(op(), nil)}).fold(bytesOf(want), 8*k, n)
				if combinerOf(op).Combine(bytesOf(got), parts); !slices.Equal(got, want[:k]) {
					t.Fatalf("%d contributions of %d elements, %T", n, k, op())
				}
			}
		}
	}
}

func combinerOf[T any](op Op[T]) engine.Combiner {
	own, _ := codeOf(op())
	return (&collective{own: own}).combiner(combineFrom)
}

// Operators of programs are called outside the engine.
func TestCombinerOfOthers(t *testing.T) {
	type wrapped struct{ Operator[int] }
	for _, op := range []Op[int]{OpFunc(func(dst, src []int) {}, true), func() Operator[int] { return wrapped{Sum[int]()} }} {
		if combinerOf(op) != nil {
			t.Errorf("%T is combined within the engine", op())
		}
	}
}
