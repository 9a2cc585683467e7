package self

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"github.com/gorun-mpi/gorun/cr/image"
)

// reading is a stream on its way back into a value.
type reading struct {
	order order
	swap  bool
	rest  []byte
	depth int
}

func (r *reading) short(what string) error {
	return fmt.Errorf("%w: the stream ends within %s", image.ErrCorrupt, what)
}

func (r *reading) take(n int, what string) ([]byte, error) {
	if n < 0 || n > len(r.rest) {
		return nil, r.short(what)
	}
	p := r.rest[:n]
	r.rest = r.rest[n:]
	return p, nil
}

// length reads a length. Each of the counted things takes at least unit bytes of the stream, so a damaged
// length cannot ask for more memory than there is data.
func (r *reading) length(unit int, what string) (n int, isNil bool, err error) {
	p, err := r.take(8, what)
	if err != nil {
		return 0, false, err
	}
	v := r.order.Uint64(p)
	if v == nilLength {
		return 0, true, nil
	}
	limit := uint64(math.MaxInt)
	if unit > 0 {
		limit = uint64(len(r.rest) / unit)
	}
	if v > limit {
		return 0, false, r.short(what)
	}
	return int(v), false, nil
}

// fixed fills n bytes at dst with elements p.
func (r *reading) fixed(p *plan, dst unsafe.Pointer, n int) error {
	src, err := r.take(n, p.t.String())
	if err != nil || n == 0 {
		return err
	}
	if err := checkBools(p, src); err != nil {
		return err
	}
	b := unsafe.Slice((*byte)(dst), n)
	copy(b, src)
	if r.swap {
		swapFixed(p, b)
	}
	return nil
}

// unit returns the smallest size that a value of type p takes in the stream.
func unit(p *plan) int {
	if p.op == opFixed {
		return int(p.size)
	}
	return 8
}

// value fills *dst, of type p.
func (r *reading) value(p *plan, dst unsafe.Pointer, root bool) error {
	if p.op == opFixed {
		return r.fixed(p, dst, int(p.size))
	}
	r.depth++
	defer func() { r.depth-- }()
	if r.depth > maxDepth {
		return fmt.Errorf("%v: %w", p.t, ErrTooDeep)
	}
	switch p.op {
	case opString:
		b, _, err := r.bytes("a string")
		if err != nil {
			return err
		}
		*(*string)(dst) = string(b)
	case opSlice:
		return r.slice(p, dst, root)
	case opMap:
		return r.mapping(p, dst)
	case opArray:
		return r.elements(p.elem, dst, p.n)
	case opStruct:
		for _, f := range p.fields {
			if err := r.value(f.plan, unsafe.Add(dst, f.offset), false); err != nil {
				return err
			}
		}
	case opBinary:
		b, _, err := r.bytes(p.t.String())
		if err != nil {
			return err
		}
		// A copy: implementations may keep what they are given.
		if err := reflect.NewAt(p.t, dst).Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(append([]byte(nil), b...)); err != nil {
			return fmt.Errorf("%v: UnmarshalBinary: %w", p.t, err)
		}
	}
	return nil
}

func (r *reading) bytes(what string) ([]byte, bool, error) {
	n, isNil, err := r.length(1, what)
	if err != nil {
		return nil, false, err
	}
	b, err := r.take(n, what)
	return b, isNil, err
}

func (r *reading) elements(p *plan, dst unsafe.Pointer, n int) error {
	for i := range n {
		if err := r.value(p, unsafe.Add(dst, uintptr(i)*p.size), false); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) slice(p *plan, dst unsafe.Pointer, root bool) error {
	n, isNil, err := r.length(unit(p.elem), p.t.String())
	if err != nil {
		return err
	}
	v := reflect.NewAt(p.t, dst).Elem()
	if isNil {
		v.SetZero()
		return nil
	}
	room(v, n, root)
	if p.elem.op == opFixed {
		return r.fixed(p.elem, v.UnsafePointer(), n*int(p.elem.size))
	}
	return r.elements(p.elem, v.UnsafePointer(), n)
}

// room gives the slice v the length n, in its own memory if that is large enough. For a slice within another
// value its length counts, not its capacity: the memory behind its end may belong to a neighbour.
func room(v reflect.Value, n int, root bool) {
	have := v.Len()
	if root {
		have = v.Cap()
	}
	if n <= have && !v.IsNil() {
		v.SetLen(n)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
}

func (r *reading) mapping(p *plan, dst unsafe.Pointer) error {
	each := unit(p.key) + unit(p.elem)
	n, isNil, err := r.length(each, p.t.String())
	if err != nil {
		return err
	}
	m := reflect.NewAt(p.t, dst).Elem()
	if isNil {
		m.SetZero()
		return nil
	}
	if each == 0 && n > 1 {
		return r.short(p.t.String())
	}
	fresh := reflect.MakeMapWithSize(p.t, n)
	for range n {
		// New ones each time: the map keeps what a slice within a value points at.
		key, val := reflect.New(p.key.t), reflect.New(p.elem.t)
		if err := r.value(p.key, key.UnsafePointer(), false); err != nil {
			return err
		}
		if err := r.value(p.elem, val.UnsafePointer(), false); err != nil {
			return err
		}
		fresh.SetMapIndex(key.Elem(), val.Elem())
	}
	m.Set(fresh)
	return nil
}
