// Package export writes numeric variables of portable images as files of other programs: .npy of NumPy, and HDF5. It
// reads images of any byte order and changes no byte of the numbers: both formats say in which order they are.
//
// A variable that is distributed over the ranks can be put together of all images (Whole).
//
// A variable can be exported if it is a number, a bool, an array or a slice of these, or slices in slices of equal
// lengths. Bools become bytes in HDF5, which has none.
package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
)

// ErrKind says that a variable is not made of numbers alone.
var ErrKind = errors.New("not numbers")

// Class is a kind of numbers.
type Class byte

// The classes, in the letters of NumPy.
const (
	Bool    Class = 'b'
	Int     Class = 'i'
	Uint    Class = 'u'
	Float   Class = 'f'
	Complex Class = 'c'
)

// Array is a variable as rows of numbers, the last index running fastest.
type Array struct {
	Name      string
	Class     Class
	Size      int // bytes of an element
	BigEndian bool
	Shape     []uint64 // empty: one number
	Data      []byte

	rest func(put func([]byte) error) error // reads Data piece by piece; nil: it is all there
}

// elements are the kinds of numbers by their names in images.
var elements = map[string]struct {
	class Class
	size  int
}{
	"bool": {Bool, 1}, "int8": {Int, 1}, "int16": {Int, 2}, "int32": {Int, 4}, "int64": {Int, 8},
	"uint8": {Uint, 1}, "uint16": {Uint, 2}, "uint32": {Uint, 4}, "uint64": {Uint, 8},
	"float32": {Float, 4}, "float64": {Float, 8}, "complex64": {Complex, 8}, "complex128": {Complex, 16},
}

// Variable reports whether a section of an image is a variable.
func Variable(s image.Section) bool { return s.Kind == self.KindArray || s.Kind == self.KindValue }

// Read reads a variable. Errors: ErrKind, and those of a damaged image.
func Read(r *image.Reader, s image.Section) (*Array, error) {
	t, err := parse(s.Type)
	if err != nil {
		return nil, fmt.Errorf("variable %q: %w", s.Name, err)
	}
	a := &Array{Name: s.Name, Class: t.class, Size: t.size, BigEndian: r.Meta().BigEndian}
	if a.Data, err = r.Bytes(s.Kind, s.Name); err != nil {
		return nil, err
	}
	if err := a.fill(t, s.Kind == self.KindArray); err != nil {
		return nil, fmt.Errorf("image %s: variable %q: %w", r.Path(), s.Name, err)
	}
	return a, nil
}

// numeric is a type: slices of slices ... of arrays of arrays ... of numbers.
type numeric struct {
	slices int      // how many times it is a slice
	dims   []uint64 // of the arrays within
	fixed  uint64   // bytes of what is within the slices
	class  Class
	size   int
}

// maxDims is the most dimensions that both formats have.
const maxDims = 32

// parse reads the type of a section, such as [][3]float64.
func parse(typ string) (t numeric, err error) {
	no := fmt.Errorf("%w: %.60s", ErrKind, typ)
	rest := typ
	for strings.HasPrefix(rest, "[]") {
		rest = rest[2:]
		t.slices++
	}
	t.fixed = 1
	for strings.HasPrefix(rest, "[") {
		n, after, ok := strings.Cut(rest[1:], "]")
		d, e := strconv.ParseUint(n, 10, 62)
		if !ok || e != nil {
			return t, no
		}
		t.dims, rest = append(t.dims, d), after
		if d > 0 && t.fixed > math.MaxInt64/d {
			return t, no
		}
		t.fixed *= d
	}
	e, ok := elements[rest]
	if !ok || t.slices+len(t.dims) > maxDims || t.fixed > math.MaxInt64/16 {
		return t, no
	}
	t.class, t.size, t.fixed = e.class, e.size, t.fixed*uint64(e.size)
	return t, nil
}

var errShort = fmt.Errorf("%w: the stream of a value ends too early or too late", image.ErrCorrupt)

// fill takes the shape from the data, and the lengths of slices out of it.
func (a *Array) fill(t numeric, bare bool) error {
	switch {
	case bare && (t.slices != 1 || t.fixed == 0 || uint64(len(a.Data))%t.fixed != 0):
		return fmt.Errorf("%w: %d bytes of elements of %d", image.ErrCorrupt, len(a.Data), t.fixed)
	case bare:
		a.Shape = append([]uint64{uint64(len(a.Data)) / t.fixed}, t.dims...)
		return nil
	}
	u := unnest{t: t, rest: a.Data, shape: make([]uint64, t.slices), known: make([]bool, t.slices)}
	u.order = binary.LittleEndian
	if a.BigEndian {
		u.order = binary.BigEndian
	}
	if err := u.slice(0); err != nil {
		return err
	}
	if len(u.rest) != 0 {
		return errShort
	}
	a.Shape, a.Data = append(u.shape, t.dims...), u.data
	return nil
}

// unnest puts the elements of slices of slices in a row.
type unnest struct {
	t     numeric
	order binary.ByteOrder
	rest  []byte
	data  []byte
	shape []uint64
	known []bool // by depth: its length is
}

// slice takes a slice at a depth, or what is within the innermost.
func (u *unnest) slice(depth int) error {
	if depth == u.t.slices {
		return u.take(u.t.fixed)
	}
	if len(u.rest) < 8 {
		return errShort
	}
	n := u.order.Uint64(u.rest)
	u.rest = u.rest[8:]
	if n == math.MaxUint64 { // nil
		n = 0
	}
	if u.known[depth] && u.shape[depth] != n {
		return fmt.Errorf("%w in a block: slices of %d and %d elements are beside each other", ErrKind, u.shape[depth], n)
	}
	u.shape[depth], u.known[depth] = n, true
	if depth == u.t.slices-1 {
		if u.t.fixed > 0 && n > uint64(len(u.rest))/u.t.fixed {
			return errShort
		}
		return u.take(n * u.t.fixed)
	}
	if n > uint64(len(u.rest))/8 {
		return errShort
	}
	for range n {
		if err := u.slice(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

func (u *unnest) take(n uint64) error {
	if n > uint64(len(u.rest)) {
		return errShort
	}
	u.data, u.rest = append(u.data, u.rest[:n]...), u.rest[n:]
	return nil
}

// FileName makes a variable's name one of a file, and of a link in HDF5: bytes that cannot be in one, and % itself, are written
// as % and two hexadecimal digits.
func FileName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c == '/' || c == '%' || c < ' ' || c == 0x7f || c == '.' && i == 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// File is where an export is written.
type File interface {
	io.Writer
	io.WriterAt
}
