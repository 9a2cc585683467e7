// Package self writes and reads portable images. An image holds the variables that a program has registered by
// name, and the messages that had arrived and were not yet received. A rebuilt program may restore it, on
// another architecture and with the other byte order.
//
// # What an image holds
//
// The container is that of package image; meta names the back-end "self" and
// this package's own format number. Kinds of sections:
//
//	array     a variable that is a slice of a fixed-size type: its elements, one
//	          after the other, as they lie in memory
//	value     any other variable, as a stream
//	window    of a Distributed variable, beside its array: rows of all ranks,
//	          elements of a row, first row of this rank, rows of this rank, u64 each
//	digest    of a Replicated variable, beside its array or value: the SHA-256 of its
//	          type, a zero byte and its bytes, in which padding is zero
//	messages  one, named "": count u64, then for each message in order of arrival
//	          context u64, source u32, tag i32, type u32, foreign u32,
//	          length u64, bytes
//
// An image with windows or digests has format 2, any other format 1, which older
// libraries read.
//
// Numbers are in the byte order that the image's header names. The stream of a
// value:
//
//	fixed     its bytes as they lie in memory
//	string    length u64, bytes
//	slice     length u64 (all ones: nil), elements
//	map       length u64 (all ones: nil), key, value, key, value ... ordered by
//	          the bytes of the keys
//	array, struct   elements, fields, in order
//	binary    length u64, what MarshalBinary returned
//
// Fixed are bool, numbers, complex numbers, and arrays and structs of these. Their memory is the same on all
// 64-bit platforms of Go. Numbers are aligned to their size, complex ones to half of it. int and uint have 8
// bytes. Structs are padded to their largest alignment. Bits are kept as they are, those of NaNs included.
//
// # Types
//
// A section carries the variable's type in words that mean the same everywhere: kinds and field names, named
// types by what they are made of, int as int64. Examples are "[]float64", "map[string]int64" and "struct{A
// int64; B []string}". A type that contains itself says "^n" for the n-th type outwards. On restore this string
// must be equal. Otherwise the error names the variable and both types.
//
// Structs are saved with their unexported fields. Register refuses pointers, interfaces, channels, functions
// and uintptr, because they mean nothing in another process. If a type contains one of them but has
// MarshalBinary and UnmarshalBinary, as time.Time has, these save it, as "binary(time.Time)".
//
// # Slices
//
// A slice comes back with its length. Its memory is reused if its capacity suffices. For a slice
// within another value its present length must suffice, so that rows cut from one array stay rows
// of it. Otherwise variables that share memory when they are saved do not share it after a restart.
// A program that wants this makes them share it before it registers them. Maps are made again.
//
// # Another number of ranks
//
// Images of n ranks are restored by m others if every variable in them is Distributed or Replicated, and no messages
// are in them: Resizable says so, and OpenResized restores. The windows of a variable cut its rows into one stretch
// for each rank, in the order of ranks; a stretch may be empty. So a rank finds those that it needs by bisection, and
// reads the rows that it is to have, and no others:
//
//	images of 3    |  rank 0  |  rank 1   |  rank 2  |      window of "x" in each
//	rows           0          4           9         12
//	ranks of 2     |      rank 0    |     rank 1     |      rank 1 reads rows 3 and 4 of the second window,
//	               0                6               12      and the third
package self

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unsafe"
)

// Format is the number of this package's newest format in the image's meta.
const Format = 3

// Older formats, which images have that need no more.
const (
	formatAlone = 1 // only the same number of ranks can restore it
	formatRows  = 2 // of Distributed variables it has whole rows
)

// Kinds of sections.
const (
	KindArray    = "array"
	KindValue    = "value"
	KindWindow   = "window"
	KindDigest   = "digest"
	KindMessages = "messages"
)

// Backend names this back-end in meta and schema.
const Backend = "self"

// Reasons for errors, for errors.Is.
var (
	ErrKind      = errors.New("cannot be saved in a portable image")
	ErrDuplicate = errors.New("registered twice")
	ErrMissing   = errors.New("not in the image")
	ErrType      = errors.New("saved with another type")
	ErrBackend   = errors.New("not a portable image of this format")
	ErrTooDeep   = errors.New("nested too deeply, or contains itself")
	ErrResize    = errors.New("only as many ranks as there were can go on")
)

// Registry is the set of variables that belong to an image. The zero value is
// empty and ready. Its methods may be called by several goroutines at once.
type Registry struct {
	mu    sync.Mutex
	vars  []variable
	names map[string]int
	spare *arena // of an earlier copy, kept for the next
	swap  bool   // tests: write images of the other byte order
}

// variable is one registered value.
type variable struct {
	name string
	plan *plan
	typ  string
	ptr  unsafe.Pointer
	win  *window // Distributed: the rows at ptr; nil: it is not
	same bool    // Replicated
}

// maxName bounds the length of a variable's name, in bytes.
const maxName = 1024

// Register adds the variable *ptr, or that of a Distributed or Replicated. From now on it is read by every Copy; it
// must not be written while Copy runs. Errors: ErrKind with the offending
// field, ErrDuplicate.
func (r *Registry) Register(name string, ptr any) error {
	v, err := describe(name, ptr)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, dup := r.names[name]; dup {
		return fmt.Errorf("variable %q: %w", name, ErrDuplicate)
	}
	if r.names == nil {
		r.names = make(map[string]int)
	}
	r.names[name] = len(r.vars)
	r.vars = append(r.vars, v)
	return nil
}

// Names lists the variables in the order in which they were registered.
func (r *Registry) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make([]string, len(r.vars))
	for i, v := range r.vars {
		names[i] = v.name
	}
	return names
}

// Close gives back the memory that is kept between copies. The registry stays
// usable.
func (r *Registry) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spare != nil {
		r.spare.unmap()
		r.spare = nil
	}
}

// describe checks that ptr can be registered.
func describe(name string, ptr any) (v variable, err error) {
	if name == "" || len(name) > maxName {
		return v, fmt.Errorf("variable %.40q: a name has 1 to %d bytes", name, maxName)
	}
	v.name = name
	switch x := ptr.(type) {
	case Replicated:
		ptr, v.same = x.Ptr, true
	case Distributed:
		if p := reflect.ValueOf(ptr); p.Kind() == reflect.Pointer && p.IsNil() {
			return v, fmt.Errorf("variable %q: %w: nil %T", name, ErrKind, ptr)
		}
		part := x.Part()
		ptr, v.win = part.Own, &window{rows: part.Rows, width: part.Width, first: part.First, cols: part.Columns}
	}
	p := reflect.ValueOf(ptr)
	if p.Kind() != reflect.Pointer {
		return v, fmt.Errorf("variable %q: %w: %T is not a pointer, pass &variable", name, ErrKind, ptr)
	}
	if p.IsNil() {
		return v, fmt.Errorf("variable %q: %w: nil %T", name, ErrKind, ptr)
	}
	if v.plan, err = planOf(p.Type().Elem()); err == nil {
		v.typ, err = TypeString(p.Type().Elem())
	}
	v.ptr = p.UnsafePointer()
	if err == nil && v.win != nil {
		err = v.measure()
	}
	if err != nil {
		return v, fmt.Errorf("variable %q: %w", name, err)
	}
	return v, nil
}
