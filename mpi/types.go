package mpi

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"strconv"
	"sync"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// basics are the descriptors of numeric kinds. The index is the reflect.Kind, which is also the descriptor's
// ID. int, uint and uintptr have 8 bytes on every machine that gorun runs on.
var basics = func() (b [reflect.Complex128 + 1]engine.Type) {
	for _, t := range []reflect.Type{
		reflect.TypeFor[bool](),
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](), reflect.TypeFor[uintptr](),
		reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[complex64](), reflect.TypeFor[complex128](),
	} {
		b[t.Kind()] = engine.Type{ID: uint32(t.Kind()), Size: int(t.Size()), Name: t.Kind().String(), Swap: each(int(t.Size()), swapOne(t))}
	}
	return
}()

// composite caches descriptors of arrays and structs.
var composite sync.Map // reflect.Type -> described

type described struct {
	t   *engine.Type
	err error
}

// basic returns the descriptor of T if T is one of the most frequent types; else nil. p is a nil pointer to T.
// The next call's lock waits for all loads before it: basic takes two dependent loads, reflection takes five.
func basic(p any) *engine.Type {
	switch p.(type) {
	case *byte:
		return &basics[reflect.Uint8]
	case *float64:
		return &basics[reflect.Float64]
	case *int:
		return &basics[reflect.Int]
	case *int32:
		return &basics[reflect.Int32]
	case *int64:
		return &basics[reflect.Int64]
	case *float32:
		return &basics[reflect.Float32]
	case *uint32:
		return &basics[reflect.Uint32]
	case *uint64:
		return &basics[reflect.Uint64]
	case *complex128:
		return &basics[reflect.Complex128]
	}
	return nil
}

// elem returns the descriptor of T, or ErrType naming T.
func elem[T any]() (*engine.Type, error) {
	rt := reflect.TypeFor[T]()
	if k := rt.Kind(); k <= reflect.Complex128 {
		return &basics[k], nil
	}
	return describe(rt)
}

func describe(rt reflect.Type) (*engine.Type, error) {
	if d, ok := composite.Load(rt); ok {
		return d.(described).t, d.(described).err
	}
	layout, err := appendLayout(nil, rt, 0)
	if err == nil && rt.Size() == 0 {
		err = fmt.Errorf("%v has no size", rt)
	}
	d := described{err: err}
	if err != nil {
		d.err = fmt.Errorf("%w: %v cannot be sent: elements must have a fixed size and no pointers, but %w; use SendObject or []byte", ErrType, rt, err)
	} else {
		h := fnv.New32a()
		h.Write(layout)
		d.t = &engine.Type{ID: h.Sum32() | engine.LayoutType, Size: int(rt.Size()), Name: rt.String(), Swap: each(int(rt.Size()), swapOne(rt))}
	}
	composite.Store(rt, d)
	return d.t, d.err
}

// sizeOf returns the size of an element of the type with that ID, or 0 if this process knows no such type.
func sizeOf(id uint32) int {
	size := 0
	if id < uint32(len(basics)) {
		size = basics[id].Size
	}
	composite.Range(func(_, d any) bool {
		if t := d.(described).t; t != nil && t.ID == id {
			size = t.Size
		}
		return size == 0
	})
	return size
}

// appendLayout describes the memory of one element in words that do not depend on names: kinds at offsets,
// arrays with their length, the size at the end. Types of equal layout may be sent as each other.
func appendLayout(b []byte, rt reflect.Type, off uintptr) ([]byte, error) {
	var err error
	switch k := rt.Kind(); {
	case k >= reflect.Bool && k <= reflect.Complex128:
		b = strconv.AppendUint(b, uint64(off), 10)
		b = append(b, k.String()...)
	case k == reflect.Array:
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(rt.Len()), 10)
		b = append(b, ']')
		b, err = appendLayout(b, rt.Elem(), off)
	case k == reflect.Struct:
		b = append(b, '{')
		for i := 0; i < rt.NumField(); i++ {
			f := rt.Field(i)
			if b, err = appendLayout(b, f.Type, off+f.Offset); err != nil {
				return nil, fmt.Errorf("its field %s: %w", f.Name, err)
			}
			b = append(b, ' ')
		}
		b = append(b, '}')
	default:
		return nil, fmt.Errorf("%v refers to other memory", rt)
	}
	b = append(b, '/')
	return strconv.AppendUint(b, uint64(rt.Size()), 10), err
}

// swapOne returns a function that converts one element between byte orders, or nil if there is nothing to do.
func swapOne(rt reflect.Type) func(p []byte) {
	switch rt.Kind() {
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		return nil
	case reflect.Complex64, reflect.Complex128:
		half := int(rt.Size()) / 2
		return func(p []byte) { reverse(p[:half]); reverse(p[half:]) }
	case reflect.Array:
		if one := swapOne(rt.Elem()); one != nil {
			return each(int(rt.Elem().Size()), one)
		}
		return nil
	case reflect.Struct:
		return swapFields(rt)
	}
	return reverse
}

func swapFields(rt reflect.Type) func(p []byte) {
	type part struct {
		from, to uintptr
		swap     func([]byte)
	}
	var parts []part
	for i := 0; i < rt.NumField(); i++ {
		f := rt.Field(i)
		if one := swapOne(f.Type); one != nil {
			parts = append(parts, part{f.Offset, f.Offset + f.Type.Size(), one})
		}
	}
	if parts == nil {
		return nil
	}
	return func(p []byte) {
		for _, f := range parts {
			f.swap(p[f.from:f.to])
		}
	}
}

// each applies one to every whole element of a block.
func each(size int, one func([]byte)) func([]byte) {
	return func(p []byte) {
		if one == nil {
			return
		}
		for ; len(p) >= size; p = p[size:] {
			one(p[:size:size])
		}
	}
}

func reverse(p []byte) {
	for i, j := 0, len(p)-1; i < j; i, j = i+1, j-1 {
		p[i], p[j] = p[j], p[i]
	}
}
