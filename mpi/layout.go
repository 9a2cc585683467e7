package mpi

import (
	"fmt"
	"math/bits"
)

// Layout says which elements of a slice belong to a message, and in which order: a derived datatype. It counts in
// elements, not in bytes, so one layout serves slices of any type. A Layout is a value; it refers to no data and is never
// freed. The zero Layout has no elements. (MPI-4.1, chapter 5.1)
//
// A layout made of arguments that make no sense is kept with the reason, and the call that uses it returns ErrLayout.
type Layout struct {
	body         body
	size         int // elements of a message
	lower, upper int // where the next one begins, seen from this one: at upper - lower
	err          error
}

// body is the tree of a layout. A leaf has no inner: it is n elements in a row, from 0. Else it is the inner body, n times,
// stride apart, or at the places of at.
type body struct {
	n      int
	stride int
	at     []int
	inner  []body // one, or one for each of at
	size   int    // elements in all
	min    int    // the least index, and one more than the largest; both 0 of an empty body
	max    int
}

// maxIndex bounds what a layout may refer to, so that sums of two indices do not overflow.
const maxIndex = 1 << 60

// Contiguous is count elements in a row. (MPI-4.1, chapter 5.1.2, MPI_Type_contiguous)
func Contiguous(count int) Layout {
	if count < 0 || count > maxIndex {
		return badLayout("Contiguous(%d): the count must not be negative", count)
	}
	return Layout{body: row(count), size: count, upper: count}
}

// Vector is count blocks of length elements each, stride elements from one beginning to the next: a column of a matrix
// with n columns is Vector(rows, 1, n). A negative stride goes backwards; see Shift. (MPI-4.1, chapter 5.1.2, MPI_Type_vector)
func Vector(count, length, stride int) Layout {
	if count < 0 || length < 0 {
		return badLayout("Vector(%d, %d, %d): counts must not be negative", count, length, stride)
	}
	return Contiguous(length).Repeat(count, stride)
}

// Repeat is the layout count times, stride elements from one to the next. (MPI-4.1, chapter 5.1.2, MPI_Type_create_hvector)
func (l Layout) Repeat(count, stride int) Layout {
	if l.err != nil {
		return l
	}
	b, ok := repeated(l.body, count, stride)
	last, fits := times(count-1, stride)
	if count < 0 || !ok || !fits {
		return badLayout("Repeat(%d, %d): the count must not be negative, nor the layout be larger than memory", count, stride)
	}
	if count == 0 || l.size == 0 && l.Extent() == 0 {
		return Layout{}
	}
	return Layout{body: b, size: b.size, lower: l.lower + min(0, last), upper: l.upper + max(0, last)}.bounded()
}

// Indexed is a block of lengths[i] elements at each displs[i]. (MPI-4.1, chapter 5.1.2, MPI_Type_indexed)
func Indexed(lengths, displs []int) Layout {
	if len(lengths) != len(displs) {
		return badLayout("Indexed: %d lengths and %d displacements", len(lengths), len(displs))
	}
	parts := make([]Layout, len(lengths))
	for i, n := range lengths {
		parts[i] = Contiguous(n)
	}
	return Joined(parts, displs)
}

// Joined is several layouts one after the other, each moved by its displacement: MPI's structure, of one
// element type. (MPI-4.1, chapter 5.1.2, MPI_Type_create_struct)
func Joined(parts []Layout, displs []int) Layout {
	if len(parts) != len(displs) {
		return badLayout("Joined: %d parts and %d displacements", len(parts), len(displs))
	}
	var l Layout
	for i, p := range parts {
		at := displs[i]
		switch {
		case p.err != nil:
			return p
		case at < -maxIndex || at > maxIndex || l.size+p.size > maxIndex:
			return badLayout("Joined: the part at %d lies outside of any memory", at)
		case p.size == 0:
			continue
		case l.size == 0:
			l.lower, l.upper = p.lower+at, p.upper+at
		}
		l.lower, l.upper = min(l.lower, p.lower+at), max(l.upper, p.upper+at)
		l.size += p.size
		l.body.at, l.body.inner = append(l.body.at, at), append(l.body.inner, p.body)
	}
	if !l.body.measure() {
		return badLayout("Joined: larger than memory")
	}
	return l.bounded()
}

// Subarray is a block of sub[0] x sub[1] x ... elements within an array of dims[0] x dims[1] x ..., which begins at
// start and lies in memory by rows: the last dimension runs fastest. The extent is that of the whole array. (MPI-4.1, chapter 5.1.3,
// MPI_Type_create_subarray)
func Subarray(dims, sub, start []int) Layout {
	if len(dims) == 0 || len(sub) != len(dims) || len(start) != len(dims) {
		return badLayout("Subarray: %d dimensions, %d lengths and %d beginnings", len(dims), len(sub), len(start))
	}
	l, at, step := Contiguous(1), 0, 1
	for d := len(dims) - 1; d >= 0; d-- {
		if sub[d] < 0 || start[d] < 0 || dims[d] < 0 || sub[d] > dims[d]-start[d] {
			return badLayout("Subarray: %d elements from %d in a dimension of %d", sub[d], start[d], dims[d])
		}
		next, ok := times(step, dims[d])
		if !ok {
			return badLayout("Subarray: the array is larger than memory")
		}
		l = l.Repeat(sub[d], step)
		at += start[d] * step
		step = next
	}
	return l.Shift(at).Resized(0, step)
}

// Resized is the layout with another extent: the next one begins extent elements after this one's lower bound. Only Of
// and repetitions see it. (MPI-4.1, chapter 5.1.7, MPI_Type_create_resized)
func (l Layout) Resized(lower, extent int) Layout {
	if l.err == nil && (lower < -maxIndex || lower > maxIndex || extent < -maxIndex || extent > maxIndex) {
		return badLayout("Resized(%d, %d): larger than memory", lower, extent)
	}
	l.lower, l.upper = lower, lower+extent
	return l
}

// Shift is the layout moved by n elements. (MPI-4.1, chapter 5.1.2, MPI_Type_create_hindexed_block)
func (l Layout) Shift(n int) Layout {
	if l.err != nil || l.size == 0 || n == 0 {
		return l
	}
	return Joined([]Layout{l}, []int{n})
}

// Of replaces each element of the layout by inner, whose extent is the width of an element: Vector(2, 1, 3).Of(row) is
// the rows 0 and 3. (MPI-4.1, chapter 5.1)
func (l Layout) Of(inner Layout) Layout {
	if l.err != nil {
		return l
	}
	if inner.err != nil {
		return inner
	}
	width := inner.Extent()
	b, ok := substituted(l.body, inner.body, width)
	lower, ok1 := times(l.lower, width)
	upper, ok2 := times(l.upper, width)
	if !ok || !ok1 || !ok2 {
		return badLayout("Of: the layout is larger than memory")
	}
	return Layout{body: b, size: b.size, lower: lower, upper: upper}.bounded()
}

// bounded is the layout, unless the next one would begin outside of any memory. Sums of a few bounds do not overflow then.
func (l Layout) bounded() Layout {
	if min(l.lower, l.upper) < -2*maxIndex || max(l.lower, l.upper) > 2*maxIndex {
		return badLayout("its extent is larger than memory")
	}
	return l
}

// Size is the number of elements of a message. (MPI-4.1, chapter 5.1.5, MPI_Type_size)
func (l Layout) Size() int { return l.size }

// Extent is the distance in elements from one layout to the next in repetitions. (MPI-4.1, chapter 5.1.7, MPI_Type_get_extent)
func (l Layout) Extent() int { return l.upper - l.lower }

// Bounds are the least index that the layout refers to, and one more than the largest. (MPI-4.1, chapter 5.1.8,
// MPI_Type_get_true_extent)
func (l Layout) Bounds() (lower, upper int) { return l.body.min, l.body.max }

// Err is why the layout can't be used, nil if it can. It wraps ErrLayout. (MPI-4.1, chapter 5.1.9)
func (l Layout) Err() error { return l.err }

func badLayout(format string, args ...any) Layout {
	return Layout{err: fmt.Errorf("%w: "+format, append([]any{ErrLayout}, args...)...)}
}

// times multiplies, and reports whether the product is small enough for a layout.
func times(a, b int) (int, bool) {
	hi, lo := bits.Mul64(uint64(abs(a)), uint64(abs(b)))
	return a * b, hi == 0 && lo <= maxIndex
}

func abs(n int) int { return max(n, -n) }

// row is n elements from 0.
func row(n int) body { return body{n: n, size: n, max: n} }

// repeated is b, n times. What is a row again becomes one.
func repeated(b body, n, stride int) (body, bool) {
	last, ok1 := times(n-1, stride)
	_, ok2 := times(n, b.size)
	switch {
	case n < 0 || !ok1 || !ok2:
		return body{}, false
	case n == 0 || b.size == 0:
		return body{}, true
	case n == 1:
		return b, true
	case b.inner == nil && stride == b.n:
		return row(n * b.n), true
	}
	r := body{n: n, stride: stride, inner: []body{b}, size: n * b.size, min: b.min + min(0, last), max: b.max + max(0, last)}
	return r, r.bounded()
}

// substituted is b with each element replaced by inner, width apart.
func substituted(b, inner body, width int) (body, bool) {
	if inner.size == 0 {
		return body{}, true
	}
	if b.inner == nil {
		return repeated(inner, b.n, width)
	}
	parts := make([]body, len(b.inner))
	for i, p := range b.inner {
		var ok bool
		if parts[i], ok = substituted(p, inner, width); !ok {
			return body{}, false
		}
	}
	if b.at == nil {
		stride, ok := times(b.stride, width)
		if !ok {
			return body{}, false
		}
		return repeated(parts[0], b.n, stride)
	}
	s := body{at: make([]int, len(b.at)), inner: parts}
	for i, at := range b.at {
		var ok bool
		if s.at[i], ok = times(at, width); !ok {
			return body{}, false
		}
	}
	return s, s.measure()
}

// bounded reports whether all that a body refers to may be in memory.
func (b *body) bounded() bool {
	return b.size <= maxIndex && b.min >= -maxIndex && b.max <= maxIndex
}

// measure finds size and bounds of a body that lists its places. It reports whether they are bounded.
func (b *body) measure() bool {
	for i, p := range b.inner {
		if p.size == 0 {
			continue
		}
		if b.size == 0 {
			b.min, b.max = p.min+b.at[i], p.max+b.at[i]
		}
		b.size += p.size
		b.min, b.max = min(b.min, p.min+b.at[i]), max(b.max, p.max+b.at[i])
		if !b.bounded() {
			return false
		}
	}
	return true
}
