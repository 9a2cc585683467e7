package mpi

import (
	"fmt"
	"unsafe"

	"github.com/gorun-mpi/gorun/internal/system/endian"
)

// View is elements of a slice that need not lie in a row: those that Layout picks of Data, in its order. It is what
// a program passes where MPI takes a buffer, a count and a datatype. (MPI-4.1, chapter 5.1)
//
// A View refers to Data and owns nothing. Calls return ErrLayout if the layout refers to elements outside of Data, and
// if elements are to be written that it has twice.
type View[T any] struct {
	Data   []T
	Layout Layout
}

// check returns why the view can't be read, or written, if so.
func (v *View[T]) check(written bool) error {
	l := &v.Layout
	switch {
	case l.err != nil:
		return l.err
	case l.body.min < 0 || l.body.max > len(v.Data):
		return fmt.Errorf("%w: it refers to elements %d to %d of %d", ErrLayout, l.body.min, l.body.max-1, len(v.Data))
	case written && !l.body.distinct():
		return fmt.Errorf("%w: what is received would be written to the same element twice", ErrLayout)
	}
	return tooLong[T](l.size)
}

// longest is the length in bytes of the longest message of a layout. One that has the same elements again and again
// could be longer than any memory.
const longest = 1 << 42

// tooLong returns ErrLayout for a message of so many elements.
func tooLong[T any](n int) error {
	if size := max(int(unsafe.Sizeof(*new(T))), 1); n > longest/size {
		return fmt.Errorf("%w: a message of %d elements of %d bytes is longer than any memory", ErrLayout, n, size)
	}
	return nil
}

// Pack copies the view's elements to dst, one after the other, and returns how many they are. dst has room for all. Errors:
// ErrLayout, ErrCount. (MPI-4.1, chapter 5.2, MPI_Pack)
func (v View[T]) Pack(dst []T) (int, error) {
	err := v.check(false)
	if err == nil && len(dst) < v.Layout.size {
		err = fmt.Errorf("%w: room for %d elements of %d", ErrCount, len(dst), v.Layout.size)
	}
	if err != nil {
		return 0, (*Comm)(nil).fail("Pack", err)
	}
	pack(&v.Layout.body, dst, v.Data, 0)
	return v.Layout.size, nil
}

// Unpack copies src to the view's elements and returns how many were there. A shorter src leaves the rest as it is.
// Errors: ErrLayout; ErrCount if src is longer. (MPI-4.1, chapter 5.2, MPI_Unpack)
func (v View[T]) Unpack(src []T) (int, error) {
	err := v.check(true)
	if err == nil && len(src) > v.Layout.size {
		err = fmt.Errorf("%w: %d elements for %d places", ErrCount, len(src), v.Layout.size)
	}
	if err != nil {
		return 0, (*Comm)(nil).fail("Unpack", err)
	}
	unpack(&v.Layout.body, v.Data, 0, src)
	return len(src), nil
}

// PackExternal is Pack in the form external32: big-endian, each field of an element at its size in Go, so that files and
// machines of every kind can exchange it. It returns the number of bytes. Errors: ErrLayout, ErrType; ErrCount if dst is too short. (MPI-4.1, chapters 5.3 and
// 14.5.2, MPI_Pack_external)
func (v View[T]) PackExternal(dst []byte) (int, error) {
	t, err := elem[T]()
	if err == nil {
		err = v.check(false)
	}
	n := v.Layout.size * int(unsafe.Sizeof(*new(T)))
	if err == nil && len(dst) < n {
		err = fmt.Errorf("%w: room for %d bytes of %d", ErrCount, len(dst), n)
	}
	if err != nil {
		return 0, (*Comm)(nil).fail("PackExternal", err)
	}
	tmp, s := borrowSlice[T](v.Layout.size)
	defer s.giveBack()
	pack(&v.Layout.body, tmp, v.Data, 0)
	copy(dst, bytesOf(tmp))
	if !endian.Big && t.Swap != nil {
		t.Swap(dst[:n])
	}
	return n, nil
}

// UnpackExternal is Unpack of what PackExternal has made, here or on another machine. It returns the number of bytes read. Errors: ErrLayout, ErrType;
// ErrCount if src is longer than the view, or ends within an element. (MPI-4.1, chapter 5.3, MPI_Unpack_external)
func (v View[T]) UnpackExternal(src []byte) (int, error) {
	t, err := elem[T]()
	if err == nil {
		err = v.check(true)
	}
	size := int(unsafe.Sizeof(*new(T)))
	if err == nil && (len(src) > v.Layout.size*size || len(src)%size != 0) {
		err = fmt.Errorf("%w: %d bytes for %d elements of %d", ErrCount, len(src), v.Layout.size, size)
	}
	if err != nil {
		return 0, (*Comm)(nil).fail("UnpackExternal", err)
	}
	tmp, s := borrowSlice[T](len(src) / size)
	defer s.giveBack()
	copy(bytesOf(tmp), src)
	if !endian.Big && t.Swap != nil {
		t.Swap(bytesOf(tmp))
	}
	unpack(&v.Layout.body, v.Data, 0, tmp)
	return len(src), nil
}
