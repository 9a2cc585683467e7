package self

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// op says how a type is written.
type op uint8

const (
	opFixed op = iota
	opString
	opSlice
	opArray
	opMap
	opStruct
	opBinary
)

// plan is a type, looked through once.
type plan struct {
	t         reflect.Type
	op        op
	size      uintptr // bytes in memory; opFixed: in the image too
	hasBool   bool    // opFixed: some byte is a bool and must be 0 or 1
	padded    bool    // opFixed: some bytes belong to no field
	elem, key *plan
	n         int     // arrays: elements
	fields    []field // structs
}

type field struct {
	name   string
	offset uintptr
	plan   *plan
}

var (
	marshaler   = reflect.TypeFor[encoding.BinaryMarshaler]()
	unmarshaler = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

// plans keeps what was looked through: reflect.Type -> *plan. Only types
// that can be saved are in it.
var plans sync.Map

func planOf(t reflect.Type) (*plan, error) {
	if p, ok := plans.Load(t); ok {
		return p.(*plan), nil
	}
	p, err := compile(t, make(map[reflect.Type]*plan))
	if err != nil {
		return nil, err
	}
	plans.Store(t, p)
	return p, nil
}

// compile looks through t. busy holds the types being looked through, so a type that contains itself, through a
// slice or map, finds its own plan.
func compile(t reflect.Type, busy map[reflect.Type]*plan) (*plan, error) {
	if p := busy[t]; p != nil {
		return p, nil
	}
	p := &plan{t: t, size: t.Size()}
	busy[t] = p
	err := p.fill(busy)
	if err != nil && t.Name() != "" && reflect.PointerTo(t).Implements(marshaler) && reflect.PointerTo(t).Implements(unmarshaler) {
		*p = plan{t: t, size: t.Size(), op: opBinary}
		err = nil
	}
	if err != nil {
		delete(busy, t)
		return nil, err
	}
	return p, nil
}

func (p *plan) fill(busy map[reflect.Type]*plan) (err error) {
	t := p.t
	switch t.Kind() {
	case reflect.Bool:
		p.hasBool = true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
	case reflect.String:
		p.op = opString
	case reflect.Slice:
		p.op = opSlice
		p.elem, err = compile(t.Elem(), busy)
	case reflect.Map:
		p.op = opMap
		if p.key, err = compile(t.Key(), busy); err == nil {
			p.elem, err = compile(t.Elem(), busy)
		}
	case reflect.Array:
		p.n = t.Len()
		if p.elem, err = compile(t.Elem(), busy); err == nil && p.elem.op != opFixed && p.n > 0 {
			p.op = opArray
		} else if err == nil {
			p.hasBool, p.padded = p.elem.hasBool && p.n > 0, p.elem.padded && p.n > 0
		}
	case reflect.Struct:
		return p.fillStruct(busy)
	default:
		return refusal(t)
	}
	return err
}

func (p *plan) fillStruct(busy map[reflect.Type]*plan) error {
	end := uintptr(0)
	for i := range p.t.NumField() {
		f := p.t.Field(i)
		fp, err := compile(f.Type, busy)
		if err != nil {
			return fmt.Errorf("field %s of %v: %w", f.Name, p.t, err)
		}
		if fp.op != opFixed {
			p.op = opStruct
		}
		p.hasBool = p.hasBool || fp.hasBool
		p.padded = p.padded || fp.padded || f.Offset > end
		end = f.Offset + f.Type.Size()
		p.fields = append(p.fields, field{f.Name, f.Offset, fp})
	}
	p.padded = p.padded || p.size > end
	return nil
}

func refusal(t reflect.Type) error {
	what := "its kind is not known here"
	switch t.Kind() {
	case reflect.Pointer:
		what = "a pointer means nothing in another process; register what it points at under a name of its own, or give the type MarshalBinary and UnmarshalBinary"
	case reflect.Interface:
		what = "an interface may hold anything; use a concrete type"
	case reflect.Chan:
		what = "a channel cannot be saved; make it again on restart"
	case reflect.Func:
		what = "a function cannot be saved"
	case reflect.Uintptr, reflect.UnsafePointer:
		what = "an address means nothing in another process; use uint64 for a number"
	}
	return fmt.Errorf("%v %w: %s", t, ErrKind, what)
}

// maxType bounds a type string, as the image does.
const maxType = 60 << 10

// TypeString names a type by kinds and field names, the same on every platform
// and in every program.
func TypeString(t reflect.Type) (string, error) {
	if _, err := planOf(t); err != nil {
		return "", err
	}
	var b strings.Builder
	if !writeType(&b, t, nil) {
		return "", fmt.Errorf("%v %w: its description is longer than %d bytes", t, ErrKind, maxType)
	}
	return b.String(), nil
}

// writeType reports false when the string has become too long.
func writeType(b *strings.Builder, t reflect.Type, outer []reflect.Type) bool {
	if b.Len() > maxType {
		return false
	}
	for i := range outer {
		if outer[len(outer)-1-i] == t && t.Name() != "" {
			b.WriteString("^" + strconv.Itoa(i+1))
			return true
		}
	}
	if p, err := planOf(t); err == nil && p.op == opBinary {
		b.WriteString("binary(" + t.PkgPath() + "." + t.Name() + ")")
		return true
	}
	outer = append(outer, t)
	switch t.Kind() {
	case reflect.Int:
		b.WriteString("int64")
	case reflect.Uint:
		b.WriteString("uint64")
	case reflect.Slice:
		b.WriteString("[]")
		return writeType(b, t.Elem(), outer)
	case reflect.Array:
		b.WriteString("[" + strconv.Itoa(t.Len()) + "]")
		return writeType(b, t.Elem(), outer)
	case reflect.Map:
		b.WriteString("map[")
		ok := writeType(b, t.Key(), outer)
		b.WriteString("]")
		return ok && writeType(b, t.Elem(), outer)
	case reflect.Struct:
		b.WriteString("struct{")
		for i := range t.NumField() {
			if i > 0 {
				b.WriteString("; ")
			}
			b.WriteString(t.Field(i).Name + " ")
			if !writeType(b, t.Field(i).Type, outer) {
				return false
			}
		}
		b.WriteString("}")
	default:
		b.WriteString(t.Kind().String())
	}
	return true
}
