package self

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

const (
	nilLength = ^uint64(0)
	maxDepth  = 1000

	// bigPiece is the size from which fixed data is not copied at once. Its place is noted, and several
	// goroutines copy it afterwards.
	bigPiece = 64 << 10
)

// stream is a value on its way into an image: small bytes in buf, and between
// them big pieces that still lie where the program has them.
type stream struct {
	order order
	swap  bool // order is not that of this machine
	buf   []byte
	cuts  []cut
	tidy  bool // no padding: equal values have equal bytes
	depth int
}

// cut is n bytes at src that belong before buf[at].
type cut struct {
	at  int
	src unsafe.Pointer
	n   int
	p   *plan // of the elements
}

// size is the length of the whole stream.
func (s *stream) size() int {
	n := len(s.buf)
	for _, c := range s.cuts {
		n += c.n
	}
	return n
}

func (s *stream) length(n int) {
	s.buf = s.order.AppendUint64(s.buf, uint64(n))
}

// fixed appends n bytes of fixed data of elements p.
func (s *stream) fixed(p *plan, src unsafe.Pointer, n int) {
	tidy := s.tidy && p.padded
	if n >= bigPiece && !tidy {
		s.cuts = append(s.cuts, cut{len(s.buf), src, n, p})
		return
	}
	if n == 0 {
		return
	}
	at := len(s.buf)
	s.buf = append(s.buf, unsafe.Slice((*byte)(src), n)...)
	if tidy {
		clearPadding(p, s.buf[at:])
	}
	if s.swap {
		swapFixed(p, s.buf[at:])
	}
}

// value appends the value of type p at src.
func (s *stream) value(p *plan, src unsafe.Pointer) error {
	if p.op == opFixed {
		s.fixed(p, src, int(p.size))
		return nil
	}
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth {
		return fmt.Errorf("%v: %w", p.t, ErrTooDeep)
	}
	switch p.op {
	case opString:
		v := *(*string)(src)
		s.length(len(v))
		s.buf = append(s.buf, v...)
	case opSlice:
		return s.slice(p, src)
	case opMap:
		return s.mapping(p, src)
	case opArray:
		return s.elements(p.elem, src, p.n)
	case opStruct:
		for _, f := range p.fields {
			if err := s.value(f.plan, unsafe.Add(src, f.offset)); err != nil {
				return err
			}
		}
	case opBinary:
		b, err := reflect.NewAt(p.t, src).Interface().(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			return fmt.Errorf("%v: MarshalBinary: %w", p.t, err)
		}
		s.length(len(b))
		s.buf = append(s.buf, b...)
	}
	return nil
}

func (s *stream) elements(p *plan, src unsafe.Pointer, n int) error {
	for i := range n {
		if err := s.value(p, unsafe.Add(src, uintptr(i)*p.size)); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) slice(p *plan, src unsafe.Pointer) error {
	v := reflect.NewAt(p.t, src).Elem()
	if v.IsNil() {
		s.buf = s.order.AppendUint64(s.buf, nilLength)
		return nil
	}
	s.length(v.Len())
	if p.elem.op == opFixed {
		s.fixed(p.elem, v.UnsafePointer(), v.Len()*int(p.elem.size))
		return nil
	}
	return s.elements(p.elem, v.UnsafePointer(), v.Len())
}

// entry is one key and value within the stream of a map's entries.
type entry struct{ key, val, end, cut, cutEnd int }

// mapping appends a map, ordered by the bytes of its keys.
func (s *stream) mapping(p *plan, src unsafe.Pointer) error {
	m := reflect.NewAt(p.t, src).Elem()
	if m.IsNil() {
		s.buf = s.order.AppendUint64(s.buf, nilLength)
		return nil
	}
	s.length(m.Len())
	side := &stream{order: s.order, swap: s.swap, tidy: s.tidy, depth: s.depth}
	entries := make([]entry, 0, m.Len())
	var key, val reflect.Value
	for it := m.MapRange(); it.Next(); {
		// A big piece stays where it was met, so such values get a place each.
		if !key.IsValid() || p.key.size+p.elem.size >= bigPiece {
			key, val = reflect.New(p.key.t), reflect.New(p.elem.t)
		}
		key.Elem().SetIterKey(it)
		val.Elem().SetIterValue(it)
		e := entry{key: len(side.buf), cut: len(side.cuts)}
		if err := side.value(p.key, key.UnsafePointer()); err != nil {
			return err
		}
		e.val = len(side.buf)
		if err := side.value(p.elem, val.UnsafePointer()); err != nil {
			return err
		}
		e.end, e.cutEnd = len(side.buf), len(side.cuts)
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return bytes.Compare(side.buf[a.key:a.val], side.buf[b.key:b.val])
	})
	for _, e := range entries {
		shift := len(s.buf) - e.key
		s.buf = append(s.buf, side.buf[e.key:e.end]...)
		for _, c := range side.cuts[e.cut:e.cutEnd] {
			c.at += shift
			s.cuts = append(s.cuts, c)
		}
	}
	return nil
}
