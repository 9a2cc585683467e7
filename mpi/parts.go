package mpi

import (
	"math/bits"
	"unsafe"

	"github.com/gorun-mpi/gorun/rpi"
)

// Contributions that lie on the boards of a team are combined where they are, if
// the operator is one of this package's: others may take long, or call the
// library, and get copies. So do short ones, which are copied as they come.

// combineFrom is the length in bytes from which on a contribution is not short.
const combineFrom = 1 << 10

// combiner returns what combines contributions of so many bytes where they are;
// nil: nothing does.
func combiner[T any](op Op[T], bytes int) rpi.Combiner {
	if p, ok := op.(predefined); ok && bytes >= combineFrom {
		return p
	}
	return nil
}

// predefined are the operators of this package.
type predefined interface {
	rpi.Combiner
	predefined()
}

func (commutes) predefined() {}

func (o sum[T]) Combine(dst []byte, parts [][]byte)     { combineParts(dst, parts, Op[T](o)) }
func (o prod[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Op[T](o)) }
func (o maximum[T]) Combine(dst []byte, parts [][]byte) { combineParts(dst, parts, Op[T](o)) }
func (o minimum[T]) Combine(dst []byte, parts [][]byte) { combineParts(dst, parts, Op[T](o)) }
func (o lAnd[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Op[T](o)) }
func (o lOr[T]) Combine(dst []byte, parts [][]byte)     { combineParts(dst, parts, Op[T](o)) }
func (o lXor[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Op[T](o)) }
func (o bAnd[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Op[T](o)) }
func (o bOr[T]) Combine(dst []byte, parts [][]byte)     { combineParts(dst, parts, Op[T](o)) }
func (o bXor[T]) Combine(dst []byte, parts [][]byte)    { combineParts(dst, parts, Op[T](o)) }

func (o maxLoc[T]) Combine(dst []byte, parts [][]byte) {
	combineParts(dst, parts, Op[ValueLoc[T]](o))
}

func (o minLoc[T]) Combine(dst []byte, parts [][]byte) {
	combineParts(dst, parts, Op[ValueLoc[T]](o))
}

// joiner is an operator that combines several contributions at one go.
type joiner[T any] interface {
	join2(dst, a, b []T)
	join4(dst, a, b, c, d []T)
}

func (sum[T]) join2(dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// The conversions keep the compiler from fusing anything.
func (sum[T]) join4(dst, a, b, c, d []T) {
	a, b, c, d = a[:len(dst)], b[:len(dst)], c[:len(dst)], d[:len(dst)]
	for i := range dst {
		dst[i] = T(a[i]+b[i]) + T(c[i]+d[i])
	}
}

// stretch is how many bytes of each contribution are combined at once: what lies
// between stays in the nearest cache.
const stretch = 4 << 10

// combineParts is fold of contributions that lie anywhere.
func combineParts[T any](dst []byte, parts [][]byte, op Op[T]) {
	var z T
	to := viewOf[T](dst)
	step := max(stretch/int(unsafe.Sizeof(z)), 1)
	f := folding[T]{order: orderOf(len(parts)), parts: parts, op: op}
	f.join, _ = op.(joiner[T])
	var tmp []T // for each level of the tree but the lowest
	if levels := bits.Len(uint(f.whole)) - 2; levels > 0 {
		var s *scratch
		tmp, s = borrowSlice[T](levels * min(step, len(to)))
		defer s.giveBack()
	}
	for f.off = 0; f.off < len(to); f.off += step {
		f.fold(to[f.off:min(f.off+step, len(to))], tmp, 0, f.order.whole)
	}
}

// folding is a stretch of all contributions, from element off on.
type folding[T any] struct {
	order
	parts [][]byte
	off   int
	op    Op[T]
	join  joiner[T] // nil: op has none
}

// part is what rank contributes to a stretch of n elements.
func (f *folding[T]) part(rank, n int) []T {
	return viewOf[T](f.parts[rank])[f.off : f.off+n]
}

// fold combines the contributions of so many participants from v on. tmp has room
// for as many elements for each level of their tree but the lowest.
func (f *folding[T]) fold(dst, tmp []T, v, count int) {
	n, rank := len(dst), f.first(v)
	single := f.join != nil && v >= f.extra
	switch {
	case count == 1:
		copy(dst, f.part(rank, n))
		if v < f.extra {
			f.op.Apply(dst, f.part(rank+1, n))
		}
	case count == 2 && single:
		f.join.join2(dst, f.part(rank, n), f.part(rank+1, n))
	case count == 4 && single:
		f.join.join4(dst, f.part(rank, n), f.part(rank+1, n), f.part(rank+2, n), f.part(rank+3, n))
	default:
		half := count / 2
		f.fold(dst, tmp, v, half)
		if half == 1 && v+1 >= f.extra {
			f.op.Apply(dst, f.part(f.first(v+1), n))
			return
		}
		f.fold(tmp[:n], tmp[n:], v+half, half)
		f.op.Apply(dst, tmp[:n])
	}
}

// viewOf looks at bytes as elements.
func viewOf[T any](p []byte) []T {
	var z T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/int(unsafe.Sizeof(z)))
}
