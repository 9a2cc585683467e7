package main

import (
	"math"
	"math/bits"

	"github.com/gorun-mpi/gorun/mpi"
)

// accumulator holds a sum of float64 exactly, as one wide integer in units of
// 2^-1074, the smallest float64:
//
//	digit   0        1        2        ...  66        | 67
//	weight  2^-1074  2^-1042  2^-1010       2^1038    | terms that are not finite
//
// A digit is an int64 of which one term touches 33 bits at most, so that 2^30
// terms fit without a carry. Integers add up to the same in any order: the dot
// products, and with them every bit of the solution, are the same for any
// number of ranks, any order of messages and on any architecture.
type accumulator [68]int64

const (
	digitBits = 32
	digitMask = 1<<digitBits - 1
	unit      = -1074 // exponent of the lowest digit's unit
	nonfinite = 67    // index
)

// add adds one term.
func (a *accumulator) add(x float64) {
	word := math.Float64bits(x)
	exponent := int(word>>52) & 0x7ff
	mantissa := word & (1<<52 - 1)
	switch exponent {
	case 0x7ff:
		a[nonfinite]++
		return
	case 0:
		exponent = 1 // subnormal: no hidden bit
	default:
		mantissa |= 1 << 52
	}
	// x is mantissa * 2^(exponent-1+unit).
	shift := uint(exponent - 1)
	k, o := shift/digitBits, shift%digitBits
	low, high := mantissa<<o, mantissa>>(64-o)
	if word>>63 != 0 {
		a[k] -= int64(low & digitMask)
		a[k+1] -= int64(low >> digitBits)
		a[k+2] -= int64(high)
		return
	}
	a[k] += int64(low & digitMask)
	a[k+1] += int64(low >> digitBits)
	a[k+2] += int64(high)
}

// addDot adds the products x[i]*y[i], each rounded to float64.
func (a *accumulator) addDot(x, y []float64) {
	y = y[:len(x)]
	for i := range x {
		a.add(float64(x[i] * y[i]))
	}
}

// value returns the sum rounded to the nearest float64, NaN if a term was not
// finite.
func (a *accumulator) value() float64 {
	if a[nonfinite] != 0 {
		return math.NaN()
	}
	d := a.magnitude()
	top := len(d) - 1
	for top >= 0 && d[top] == 0 {
		top--
	}
	if top < 0 {
		return 0
	}
	at := func(i int) uint64 {
		if i < 0 {
			return 0
		}
		return uint64(d[i])
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
		sticky = sticky || d[i] != 0
	}
	if sticky {
		v |= 1
	}
	x := math.Ldexp(float64(v), digitBits*(top-1)-shift+unit)
	if a.negative() {
		return -x
	}
	return x
}

// negative reports whether the sum is below zero.
func (a *accumulator) negative() bool {
	var carry int64
	for i := 0; i < nonfinite; i++ {
		carry = (a[i] + carry) >> digitBits
	}
	return carry < 0
}

// magnitude returns the digits of the sum's absolute value, each below 2^32.
func (a *accumulator) magnitude() [nonfinite]int64 {
	sign := int64(1)
	if a.negative() {
		sign = -1
	}
	var d [nonfinite]int64
	var carry int64
	for i := range d {
		t := sign*a[i] + carry
		d[i], carry = t&digitMask, t>>digitBits
	}
	return d
}

// sums adds the accumulators of all ranks and returns the values.
func (s *system) sums(parts ...*accumulator) ([]float64, error) {
	const w = len(accumulator{})
	all := make([]int64, 0, w*len(parts))
	for _, a := range parts {
		all = append(all, a[:]...)
	}
	s.a.clock.Leave()
	if err := mpi.AllreduceInPlace(s.c, all, mpi.Sum[int64]()); err != nil {
		return nil, err
	}
	s.a.clock.Return()
	values := make([]float64, len(parts))
	for i := range values {
		a := accumulator(all[i*w:])
		values[i] = a.value()
	}
	return values, nil
}
