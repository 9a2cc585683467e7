package mpi

import (
	"math/bits"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Contributions on the boards of a team are combined where they lie, without a copy. This needs an operator of
// this package: a program's operator may take long, or call the library, so it gets copies. Short contributions
// are copied as they arrive.

// combineFrom is the smallest length in bytes of a contribution that is not short.
const combineFrom = 1 << 10

// combiner returns a function that combines contributions of so many bytes where they lie, or nil if they are
// to be copied.
func (x *collective) combiner(bytes int) engine.Combiner {
	if x.own != nil && bytes >= combineFrom {
		return x.own
	}
	return nil
}

// predefined are the operators of this package.
type predefined interface {
	engine.Combiner
	bytewise
	number() uint8 // of the operator
}

// bytewise is an operator on the bytes of elements.
type bytewise interface {
	// join makes dst the combination of low and high, of which low is of lower ranks. dst may be either of them.
	join(dst, low, high []byte)
}

func (sum[T]) number() uint8     { return 0 }
func (prod[T]) number() uint8    { return 1 }
func (maximum[T]) number() uint8 { return 2 }
func (minimum[T]) number() uint8 { return 3 }
func (lAnd[T]) number() uint8    { return 4 }
func (lOr[T]) number() uint8     { return 5 }
func (lXor[T]) number() uint8    { return 6 }
func (bAnd[T]) number() uint8    { return 7 }
func (bOr[T]) number() uint8     { return 8 }
func (bXor[T]) number() uint8    { return 9 }
func (maxLoc[T]) number() uint8  { return 10 }
func (minLoc[T]) number() uint8  { return 11 }

func (o sum[T]) Combine(dst []byte, parts [][]byte)     { combineParts(dst, parts, Operator[T](o)) }
func (o prod[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Operator[T](o)) }
func (o maximum[T]) Combine(dst []byte, parts [][]byte) { combineParts(dst, parts, Operator[T](o)) }
func (o minimum[T]) Combine(dst []byte, parts [][]byte) { combineParts(dst, parts, Operator[T](o)) }
func (o lAnd[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Operator[T](o)) }
func (o lOr[T]) Combine(dst []byte, parts [][]byte)     { combineParts(dst, parts, Operator[T](o)) }
func (o lXor[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Operator[T](o)) }
func (o bAnd[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Operator[T](o)) }
func (o bOr[T]) Combine(dst []byte, parts [][]byte)     { combineParts(dst, parts, Operator[T](o)) }
func (o bXor[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Operator[T](o)) }

func (o maxLoc[T]) Combine(dst []byte, parts [][]byte) {
	combineParts(dst, parts, Operator[ValueLoc[T]](o))
}

func (o minLoc[T]) Combine(dst []byte, parts [][]byte) {
	combineParts(dst, parts, Operator[ValueLoc[T]](o))
}

func (o sum[T]) join(dst, low, high []byte) { o.join2(viewOf[T](dst), viewOf[T](low), viewOf[T](high)) }
func (o prod[T]) join(dst, low, high []byte) {
	o.join2(viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}
func (o maximum[T]) join(dst, low, high []byte) {
	o.join2(viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}
func (o minimum[T]) join(dst, low, high []byte) {
	o.join2(viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}
func (o lAnd[T]) join(dst, low, high []byte) {
	join(Operator[T](o), viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}

func (o lOr[T]) join(dst, low, high []byte) {
	join(Operator[T](o), viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}

func (o lXor[T]) join(dst, low, high []byte) {
	join(Operator[T](o), viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}

func (o bAnd[T]) join(dst, low, high []byte) {
	join(Operator[T](o), viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}

func (o bOr[T]) join(dst, low, high []byte) {
	join(Operator[T](o), viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}

func (o bXor[T]) join(dst, low, high []byte) {
	join(Operator[T](o), viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}

func (o opFunc[T]) join(dst, low, high []byte) {
	join(Operator[T](o), viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}

func (o maxLoc[T]) join(dst, low, high []byte) {
	o.join2(viewOf[ValueLoc[T]](dst), viewOf[ValueLoc[T]](low), viewOf[ValueLoc[T]](high))
}

func (o minLoc[T]) join(dst, low, high []byte) {
	o.join2(viewOf[ValueLoc[T]](dst), viewOf[ValueLoc[T]](low), viewOf[ValueLoc[T]](high))
}

// join is that of operators which only replace one of two.
func join[T any](op Operator[T], dst, low, high []T) {
	switch {
	case same(dst, low):
		op.Apply(dst, high)
	case same(dst, high):
		tmp, s := borrowSlice[T](len(low))
		copy(tmp, low)
		op.Apply(tmp, high)
		copy(dst, tmp)
		s.giveBack()
	default:
		copy(dst, low)
		op.Apply(dst, high)
	}
}

// onBytes is an operator of a type of the program's.
type onBytes[T any] struct{ op Operator[T] }

func (o *onBytes[T]) join(dst, low, high []byte) {
	join(o.op, viewOf[T](dst), viewOf[T](low), viewOf[T](high))
}

// bytewiseOf returns an operator on bytes. That of a type of the program's is wrapped, by what was made for the last
// one if it is of the same type of elements.
func bytewiseOf[T any](op Operator[T], last *bytewise) bytewise {
	if b, ok := op.(bytewise); ok {
		return b
	}
	o, ok := (*last).(*onBytes[T])
	if !ok {
		o = new(onBytes[T])
		*last = o
	}
	o.op = op
	return o
}

// twofold is an operator that combines two contributions, of which a is the lower rank's, in a third place. dst may be
// either.
type twofold[T any] interface {
	join2(dst, a, b []T)
}

// joiner is an operator that can combine several contributions at once.
type joiner[T any] interface {
	twofold[T]
	join4(dst, a, b, c, d []T)
}

// Of two NaNs a processor keeps the first operand. So every rank has the same loop add: one that a compiler has
// turned round would keep the other.
//
//go:noinline
func (sum[T]) join2(dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// The conversions keep the compiler from fusing operations.
func (sum[T]) join4(dst, a, b, c, d []T) {
	a, b, c, d = a[:len(dst)], b[:len(dst)], c[:len(dst)], d[:len(dst)]
	for i := range dst {
		dst[i] = T(a[i]+b[i]) + T(c[i]+d[i])
	}
}

// stretch is how many bytes of each contribution are combined at once. Intermediate results then stay in the
// nearest cache.
const stretch = 4 << 10

// combineParts is fold for contributions that lie anywhere.
func combineParts[T any](dst []byte, parts [][]byte, op Operator[T]) {
	var z T
	to := viewOf[T](dst)
	step := max(stretch/int(unsafe.Sizeof(z)), 1)
	f := folding[T]{Order: schedule.OrderOf(len(parts)), parts: parts, op: op}
	f.join, _ = op.(joiner[T])
	var tmp []T // for each level of the tree but the lowest
	if levels := bits.Len(uint(f.Whole)) - 2; levels > 0 {
		var s *scratch
		tmp, s = borrowSlice[T](levels * min(step, len(to)))
		defer s.giveBack()
	}
	for f.off = 0; f.off < len(to); f.off += step {
		f.fold(to[f.off:min(f.off+step, len(to))], tmp, 0, f.Whole)
	}
}

// folding is the same stretch of all contributions. It begins at element off.
type folding[T any] struct {
	schedule.Order
	parts [][]byte
	off   int
	op    Operator[T]
	join  joiner[T] // nil: op is no joiner
}

// part returns rank's contribution to a stretch of n elements.
func (f *folding[T]) part(rank, n int) []T {
	return viewOf[T](f.parts[rank])[f.off : f.off+n]
}

// fold combines the contributions of count participants, from v on. tmp has room for n elements for each level
// of their tree but the lowest.
func (f *folding[T]) fold(dst, tmp []T, v, count int) {
	n, rank := len(dst), f.First(v)
	single := f.join != nil && v >= f.Extra
	switch {
	case count == 1:
		copy(dst, f.part(rank, n))
		if v < f.Extra {
			f.op.Apply(dst, f.part(rank+1, n))
		}
	case count == 2 && single:
		f.join.join2(dst, f.part(rank, n), f.part(rank+1, n))
	case count == 4 && single:
		f.join.join4(dst, f.part(rank, n), f.part(rank+1, n), f.part(rank+2, n), f.part(rank+3, n))
	default:
		half := count / 2
		f.fold(dst, tmp, v, half)
		if half == 1 && v+1 >= f.Extra {
			f.op.Apply(dst, f.part(f.First(v+1), n))
			return
		}
		f.fold(tmp[:n], tmp[n:], v+half, half)
		f.op.Apply(dst, tmp[:n])
	}
}

// viewOf returns bytes as a slice of elements.
func viewOf[T any](p []byte) []T {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/int(unsafe.Sizeof(z)))
}
