package mpi

import (
	"cmp"
	"reflect"
	"unsafe"
)

// Op names the operator of a reduction: Sum and the like, or what OpFunc returns. It is a function, so that a
// call infers the type of its elements: Allreduce(c, a, b, Sum). A program may write one of its own that returns
// its Operator. (MPI-4.1, chapter 6.9.5)
type Op[T any] func() Operator[T]

// Operator combines elements. Apply replaces each dst[i] by the combination of dst[i] and src[i], where
// dst[i] comes from the lower ranks. The slices are of equal length and do not overlap. Apply must not keep
// them, and must be associative.
//
// An operator that is not Commutative is combined in the order of ranks. One that is may find dst and src
// swapped, which must not change a bit of the result. Which ranks are combined with which depends on their
// number alone. (MPI-4.1, chapter 6.9.5)
type Operator[T any] interface {
	Apply(dst, src []T)
	Commutative() bool
}

// OpFunc makes an operator of a function on blocks, see Operator. (MPI-4.1, chapter 6.9.5, MPI_Op_create)
func OpFunc[T any](apply func(dst, src []T), commutative bool) Op[T] {
	var o Operator[T] = opFunc[T]{apply, commutative}
	return func() Operator[T] { return o }
}

// operator returns what op names, nil if that is nothing.
func (op Op[T]) operator() Operator[T] {
	if op == nil {
		return nil
	}
	return op()
}

type opFunc[T any] struct {
	apply       func(dst, src []T)
	commutative bool
}

func (o opFunc[T]) Apply(dst, src []T) { o.apply(dst, src) }
func (o opFunc[T]) Commutative() bool  { return o.commutative }

// Integer are the types of whole numbers.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Real are the types of real numbers.
type Real interface {
	Integer | ~float32 | ~float64
}

// Number are the types of numbers.
type Number interface {
	Real | ~complex64 | ~complex128
}

// commutes is embedded in the predefined operators: all are commutative.
type commutes struct{}

func (commutes) Commutative() bool { return true }

type (
	sum[T Number]   struct{ commutes }
	prod[T Number]  struct{ commutes }
	maximum[T Real] struct{ commutes }
	minimum[T Real] struct{ commutes }
	lAnd[T ~bool]   struct{ commutes }
	lOr[T ~bool]    struct{ commutes }
	lXor[T ~bool]   struct{ commutes }
	bAnd[T Integer] struct{ commutes }
	bOr[T Integer]  struct{ commutes }
	bXor[T Integer] struct{ commutes }
	maxLoc[T Real]  struct{ commutes }
	minLoc[T Real]  struct{ commutes }
)

// Sum adds. (MPI-4.1, chapter 6.9.2, as are all operators here)
func Sum[T Number]() Operator[T] { return sum[T]{} }

// Prod multiplies.
func Prod[T Number]() Operator[T] { return prod[T]{} }

// Max takes the larger value; NaN if one of them is NaN.
func Max[T Real]() Operator[T] { return maximum[T]{} }

// Min takes the smaller value; NaN if one of them is NaN.
func Min[T Real]() Operator[T] { return minimum[T]{} }

// LAnd is true where all values are.
func LAnd[T ~bool]() Operator[T] { return lAnd[T]{} }

// LOr is true where at least one value is.
func LOr[T ~bool]() Operator[T] { return lOr[T]{} }

// LXor is true where an odd number of values are.
func LXor[T ~bool]() Operator[T] { return lXor[T]{} }

// BAnd is the bitwise and.
func BAnd[T Integer]() Operator[T] { return bAnd[T]{} }

// BOr is the bitwise or.
func BOr[T Integer]() Operator[T] { return bOr[T]{} }

// BXor is the bitwise exclusive or.
func BXor[T Integer]() Operator[T] { return bXor[T]{} }

// ValueLoc is a value and its place: a rank, an index, or what the program likes. (MPI-4.1, chapter 6.9.4)
type ValueLoc[T any] struct {
	Value T
	Loc   int
}

// MaxLoc takes the largest value and its place. Of equal values it takes the lowest place. (MPI-4.1, chapter
// 6.9.4)
func MaxLoc[T Real]() Operator[ValueLoc[T]] { return maxLoc[T]{} }

// MinLoc takes the smallest value and its place. Of equal values it takes the lowest place. (MPI-4.1, chapter
// 6.9.4)
func MinLoc[T Real]() Operator[ValueLoc[T]] { return minLoc[T]{} }

func (o sum[T]) Apply(dst, src []T) { o.join2(dst, dst, src) }

func (o prod[T]) Apply(dst, src []T) { o.join2(dst, dst, src) }

func (prod[T]) join2(dst, a, b []T) {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Complex64:
		mulComplex64(viewAs[complex64](dst), viewAs[complex64](a), viewAs[complex64](b))
	case reflect.Complex128:
		mulComplex128(viewAs[complex128](dst), viewAs[complex128](a), viewAs[complex128](b))
	default:
		a, b = a[:len(dst)], b[:len(dst)]
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	}
}

// Complex products are spelled out. The conversions keep the compiler from fusing a product and a sum, which it
// does on some architectures and not on others. So a result has the same bits on all of them.

func mulComplex64(dst, as, bs []complex64) {
	for i, b := range bs {
		a := as[i]
		re := float32(real(a)*real(b)) - float32(imag(a)*imag(b))
		im := float32(real(a)*imag(b)) + float32(imag(a)*real(b))
		dst[i] = complex(re, im)
	}
}

func mulComplex128(dst, as, bs []complex128) {
	for i, b := range bs {
		a := as[i]
		re := float64(real(a)*real(b)) - float64(imag(a)*imag(b))
		im := float64(real(a)*imag(b)) + float64(imag(a)*real(b))
		dst[i] = complex(re, im)
	}
}

// viewAs returns elements as elements of their underlying type.
func viewAs[U, T any](p []T) []U {
	return unsafe.Slice((*U)(unsafe.Pointer(unsafe.SliceData(p))), len(p))
}

func (o maximum[T]) Apply(dst, src []T) { o.join2(dst, dst, src) }
func (o minimum[T]) Apply(dst, src []T) { o.join2(dst, dst, src) }

func (maximum[T]) join2(dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}

func (minimum[T]) join2(dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}

func (lAnd[T]) Apply(dst, src []T) {
	for i := range dst {
		dst[i] = dst[i] && src[i]
	}
}

func (lOr[T]) Apply(dst, src []T) {
	for i := range dst {
		dst[i] = dst[i] || src[i]
	}
}

func (lXor[T]) Apply(dst, src []T) {
	for i := range dst {
		dst[i] = dst[i] != src[i]
	}
}

func (bAnd[T]) Apply(dst, src []T) {
	for i := range dst {
		dst[i] &= src[i]
	}
}

func (bOr[T]) Apply(dst, src []T) {
	for i := range dst {
		dst[i] |= src[i]
	}
}

func (bXor[T]) Apply(dst, src []T) {
	for i := range dst {
		dst[i] ^= src[i]
	}
}

// A NaN orders below every number (cmp.Compare). Of two alike with one place the lower rank's is taken, as two NaNs or zeros may
// differ in their bits.

func (o maxLoc[T]) Apply(dst, src []ValueLoc[T]) { o.join2(dst, dst, src) }
func (o minLoc[T]) Apply(dst, src []ValueLoc[T]) { o.join2(dst, dst, src) }

func (maxLoc[T]) join2(dst, a, b []ValueLoc[T]) {
	for i := range dst {
		x, y := a[i], b[i]
		if o := cmp.Compare(y.Value, x.Value); o > 0 || o == 0 && y.Loc < x.Loc {
			x = y
		}
		dst[i] = x
	}
}

func (minLoc[T]) join2(dst, a, b []ValueLoc[T]) {
	for i := range dst {
		x, y := a[i], b[i]
		if o := cmp.Compare(y.Value, x.Value); o < 0 || o == 0 && y.Loc < x.Loc {
			x = y
		}
		dst[i] = x
	}
}

// ReduceLocal combines src into dst on the calling rank alone, as a reduction does with the contributions of two
// ranks: dst[i] comes from the lower one. Errors: ErrCount, ErrBuffer, ErrOp, ErrType. (MPI-4.1, chapter 6.9.7)
func ReduceLocal[T any](dst, src []T, op Op[T]) error {
	_, err := elem[T]()
	by := op.operator()
	if _, code := codeOf(by); err == nil && code == noOp {
		err = errNoOp
	}
	if err = first(err, compare("src", len(src), len(dst)), apart(bytesOf(dst), bytesOf(src))); err != nil {
		return (*Comm)(nil).fail("ReduceLocal", err)
	}
	by.Apply(dst, src)
	return nil
}
