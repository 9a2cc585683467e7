package cg

import (
	"math"
	"math/bits"
)

// accumulator holds a sum of float64 exactly, as one wide integer in units of
// 2^-1075, half the smallest float64:
//
//	digit   0        1        2        ...  66        | 67
//	weight  2^-1075  2^-1043  2^-1011       2^1037    | terms that are not finite
//
// A digit is an int64. One term touches at most 53 of its bits, so 2^10 terms fit before a carry. carry leaves
// 32 bits in each digit, so 2^30 sums can then be added up. Sums of integers do not depend on the order. So the
// dot products, and with them every bit of the solution, are the same for any number of ranks, any order of
// messages and any architecture.
type accumulator [68]int64

const (
	digitBits = 32
	digitMask = 1<<digitBits - 1
	unit      = -1075 // exponent of the lowest digit's unit
	nonfinite = 67    // index
	terms     = 1 << 10
)

// addDot adds the products x[i]*y[i], each rounded to float64.
func (a *accumulator) addDot(x, y []float64) {
	y = y[:len(x)]
	for len(x) > terms {
		a.addFew(x[:terms], y[:terms])
		x, y = x[terms:], y[terms:]
	}
	a.addFew(x, y)
}

// addFew adds that many products that digits do not overflow.
func (a *accumulator) addFew(x, y []float64) {
	y = y[:len(x)]
	for i := range x {
		word := math.Float64bits(float64(x[i] * y[i]))
		exponent := word >> 52 & 0x7ff
		mantissa := int64(word&(1<<52-1) | 1<<52)
		if exponent-1 >= 0x7ff-1 {
			mantissa = a.odd(word)
		}
		// The term is mantissa * 2^(exponent+unit), times -1 if the sign is -1.
		sign := int64(word) >> 63
		mantissa = mantissa ^ sign - sign
		k, o := exponent/digitBits, exponent%digitBits
		a[k] += mantissa << o & digitMask
		a[k+1] += mantissa >> (digitBits - o)
	}
	a.carry()
}

// odd returns the mantissa of a term that is subnormal, or counts one that is
// not finite.
func (a *accumulator) odd(word uint64) int64 {
	if word>>52&0x7ff != 0 {
		a[nonfinite]++
		return 0
	}
	return int64(word & (1<<52 - 1) << 1) // no hidden bit, and the unit of exponent 1
}

// carry leaves 32 bits in each digit but the highest one, which has the sign.
func (a *accumulator) carry() {
	var carry int64
	for i := range nonfinite - 1 {
		t := a[i] + carry
		a[i], carry = t&digitMask, t>>digitBits
	}
	a[nonfinite-1] += carry
}

// value returns the sum rounded to the nearest float64, NaN if a term was not
// finite.
func (a accumulator) value() float64 {
	if a[nonfinite] != 0 {
		return math.NaN()
	}
	a.carry()
	negative := a[nonfinite-1] < 0
	if negative {
		for i := range a {
			a[i] = -a[i]
		}
		a.carry()
	}
	top := nonfinite - 1
	for top >= 0 && a[top] == 0 {
		top--
	}
	if top < 0 {
		return 0
	}
	at := func(i int) uint64 {
		if i < 0 {
			return 0
		}
		return uint64(a[i])
	}
	// The 64 bits from the highest one down, then one sticky bit for the rest:
	// the conversion rounds to 53 of them, to even. A subnormal sum has fewer
	// than 53 bits in all, so that Ldexp does not round again.
	v := at(top)<<digitBits | at(top-1)
	shift := bits.LeadingZeros64(v)
	rest := at(top-2) << shift
	v = v<<shift | rest>>digitBits
	sticky := rest&digitMask != 0
	for i := top - 3; i >= 0; i-- {
		sticky = sticky || a[i] != 0
	}
	if sticky {
		v |= 1
	}
	x := math.Ldexp(float64(v), digitBits*(top-1)-shift+unit)
	if negative {
		return -x
	}
	return x
}
