package device

import (
	"fmt"
	"math"
	"reflect"
	"unsafe"
)

// Number is what arrays hold: numbers that have the same size everywhere.
type Number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Array is a matrix of any number of dimensions, in rows of its first one, or a part of its rows. Elements of a row lie
// side by side.
type Array[T Number] struct {
	s    *storage
	dims []int
	all  span // its rows of the storage
	host []T  // its elements in the program's memory
}

// NewArray makes an array of zeros, valid on the host. It panics, as make does, if a dimension is negative, there is none, or no memory has so many.
func NewArray[T Number](dims ...int) *Array[T] {
	if len(dims) == 0 {
		panic("device.NewArray: no dimensions")
	}
	n := 1
	for _, d := range dims {
		if d < 0 || d > 0 && n > math.MaxInt/8/d {
			panic(fmt.Sprintf("device.NewArray: dimensions %v", dims))
		}
		n *= d
	}
	host := make([]T, n)
	var zero T
	size := int(unsafe.Sizeof(zero))
	row := size
	for _, d := range dims[1:] {
		row *= d
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(host))), n*size)
	all := span{0, dims[0]}
	return &Array[T]{newStorage(b, row, all), append([]int(nil), dims...), all, host}
}

// Dims returns the lengths of the dimensions.
func (a *Array[T]) Dims() []int { return append([]int(nil), a.dims...) }

// Rows returns the rows from one to before another, as an array that shares its copies with this one. It panics, as a
// slice does, if there are no such rows.
func (a *Array[T]) Rows(from, to int) *Array[T] {
	if from < 0 || to < from || to > a.dims[0] {
		panic(fmt.Sprintf("device.Array.Rows(%d, %d) of %d rows", from, to, a.dims[0]))
	}
	dims := append([]int{to - from}, a.dims[1:]...)
	row := 0
	if a.dims[0] > 0 {
		row = len(a.host) / a.dims[0]
	}
	return &Array[T]{a.s, dims, span{a.all.from + from, a.all.from + to}, a.host[from*row : to*row : to*row]}
}

// Host returns the elements for reading, valid: it waits for the kernels that write them, and fetches what is stale in the
// program's memory. The slice is always the same memory. It shows what kernels write later only when Host
// is called again. Errors: those of the devices.
func (a *Array[T]) Host() ([]T, error) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if err := a.s.fetch(a.all); err != nil {
		return nil, err
	}
	return a.host, nil
}

// HostW is Host for reading and writing: the copies on devices become stale. What is written to the slice after the
// next kernel has been given the array may be lost: call HostW again.
func (a *Array[T]) HostW() ([]T, error) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if err := a.s.fetch(a.all); err != nil {
		return nil, err
	}
	a.s.written(nil, a.all)
	return a.host, nil
}

// Evict fetches what is stale on the host, and gives the memory on all devices back. Errors: those of the devices.
func (a *Array[T]) Evict() error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	all := span{0, a.s.n}
	if err := a.s.fetch(all); err != nil {
		return err
	}
	a.s.copies.free()
	return nil
}

// Use is an array as an argument of a kernel, with what the kernel does to it.
type Use struct {
	s      *storage
	all    span
	reads  bool
	writes bool
	elem   reflect.Type
}

// In says that the kernel reads the array.
func (a *Array[T]) In() Use { return a.use(true, false) }

// Out says that the kernel writes all elements of the array, and reads none before. Nothing is
// transferred for it. Elements that it does not write are undefined.
func (a *Array[T]) Out() Use { return a.use(false, true) }

// InOut says that the kernel reads and writes the array, or writes only some of its elements.
func (a *Array[T]) InOut() Use { return a.use(true, true) }

func (a *Array[T]) use(reads, writes bool) Use {
	return Use{s: a.s, all: a.all, reads: reads, writes: writes, elem: reflect.TypeFor[T]()}
}

// Image is how an array is part of portable images (see cr.Register): what stands for it, what makes that valid
// before an image is made, and what is to be called when it was set.
func (a *Array[T]) Image() (ptr any, fetch, restored func() error) {
	slice := a.host
	return &slice, func() error {
			_, err := a.Host()
			return err
		}, func() error {
			if len(slice) != len(a.host) {
				return fmt.Errorf("%w: the image has %d elements, the array %v", ErrArgument, len(slice), a.dims)
			}
			a.s.mu.Lock()
			defer a.s.mu.Unlock()
			a.s.valid = a.s.valid.with(a.all)
			a.s.written(nil, a.all)
			return nil
		}
}
