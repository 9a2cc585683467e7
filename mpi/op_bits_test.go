package mpi

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A product of complex numbers has the bits of its four real products, each
// rounded: on every architecture.
func TestComplexProductIsNotFused(t *testing.T) {
	type named complex128
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		a := complex(rng.NormFloat64(), rng.NormFloat64())
		b := complex(rng.NormFloat64(), rng.NormFloat64())
		ac, bd := real(a)*real(b), imag(a)*imag(b)
		ad, bc := real(a)*imag(b), imag(a)*real(b)
		want := complex(float64(ac)-float64(bd), float64(ad)+float64(bc))
		got := []named{named(a)}
		Prod[named]().Apply(got, []named{named(b)})
		if math.Float64bits(real(complex128(got[0]))) != math.Float64bits(real(want)) ||
			math.Float64bits(imag(complex128(got[0]))) != math.Float64bits(imag(want)) {
			t.Fatalf("%v * %v = %v, want %v", a, b, got[0], want)
		}
		small := []complex64{complex64(a)}
		Prod[complex64]().Apply(small, []complex64{complex64(b)})
		x, y := complex64(a), complex64(b)
		re := float32(real(x)*real(y)) - float32(imag(x)*imag(y))
		if real(small[0]) != re {
			t.Fatalf("%v * %v = %v", x, y, small[0])
		}
	}
}
