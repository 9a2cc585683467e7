package self

import (
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/engine"
)

// Restore gives the variables of an image back. Its methods may be called by
// several goroutines at once, Close last.
type Restore struct {
	r     *image.Reader
	swap  bool // the image is of the other byte order
	msgs  []engine.Saved
	names []string

	mu     sync.Mutex
	filled map[string]bool
}

// Open opens a portable image and reads its messages. Errors: those of package
// image, ErrBackend.
func Open(from image.Source) (*Restore, error) {
	r, err := from.Open()
	if err != nil {
		return nil, err
	}
	s := &Restore{r: r, filled: make(map[string]bool)}
	if err := s.load(); err != nil {
		r.Close()
		return nil, fmt.Errorf("image %s: %w", from, err)
	}
	return s, nil
}

func (s *Restore) load() error {
	m := s.r.Meta()
	if m.Backend != Backend {
		return fmt.Errorf("%w: it was made by the back-end %q", ErrBackend, m.Backend)
	}
	if m.Format < 1 || m.Format > Format {
		return fmt.Errorf("%w: it has format %d, this library reads up to %d: use the newer gorun that wrote it", ErrBackend, m.Format, Format)
	}
	s.swap = m.BigEndian != image.HostBigEndian
	for _, sec := range s.r.Sections() {
		switch sec.Kind {
		case KindArray, KindValue:
			s.names = append(s.names, sec.Name)
		case KindMessages:
			p := make([]byte, sec.Size)
			if err := s.r.ReadSection(KindMessages, sec.Name, p); err != nil {
				return err
			}
			var err error
			if s.msgs, err = decodeMessages(p, byteOrder(m.BigEndian), s.swap); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w: a section of kind %q", ErrBackend, sec.Kind)
		}
	}
	return nil
}

// Meta is the image's.
func (s *Restore) Meta() image.Meta { return s.r.Meta() }

// Names lists the variables of the image in the order of their registration.
func (s *Restore) Names() []string { return append([]string(nil), s.names...) }

// Unclaimed lists the variables that no Fill has asked for yet.
func (s *Restore) Unclaimed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []string
	for _, n := range s.names {
		if !s.filled[n] {
			left = append(left, n)
		}
	}
	return left
}

// Messages returns the messages that had arrived, in order of arrival within each source and context. Foreign
// is set on those whose bytes are not in this machine's order. The caller owns them.
func (s *Restore) Messages() []engine.Saved { return s.msgs }

// Close closes the image.
func (s *Restore) Close() error { return s.r.Close() }

// Fill sets *ptr to the value saved under the name. Errors: ErrMissing, ErrType (naming both types), ErrKind,
// and those of a damaged image. After the latter *ptr may be half filled.
func (s *Restore) Fill(name string, ptr any) error {
	v, err := describe(name, ptr)
	if err != nil {
		return err
	}
	sec, ok := s.r.Lookup(KindArray, name)
	if !ok {
		sec, ok = s.r.Lookup(KindValue, name)
	}
	if !ok {
		return fmt.Errorf("variable %q: %w %s (it holds %v); was the program changed?", name, ErrMissing, s.r.Path(), short(s.names))
	}
	if sec.Type != v.typ {
		return fmt.Errorf("variable %q: %w: %s in %s, now %s (%v)", name, ErrType, sec.Type, s.r.Path(), v.typ, v.plan.t)
	}
	if sec.Kind == KindArray {
		err = s.fillArray(v, sec)
	} else {
		err = s.fillValue(v, sec)
	}
	if err != nil {
		return fmt.Errorf("variable %q: %w", name, err)
	}
	s.mu.Lock()
	s.filled[name] = true
	s.mu.Unlock()
	return nil
}

func short(names []string) []string {
	if len(names) > 20 {
		return append(names[:20:20], fmt.Sprintf("and %d more", len(names)-20))
	}
	return names
}

// fillArray reads the elements straight into the slice's memory.
func (s *Restore) fillArray(v variable, sec image.Section) error {
	if !isArray(v.plan) || sec.Size%uint64(v.plan.elem.size) != 0 {
		return fmt.Errorf("image %s: %w: %d bytes of %s", s.r.Path(), image.ErrCorrupt, sec.Size, sec.Type)
	}
	slice := reflect.NewAt(v.plan.t, v.ptr).Elem()
	room(slice, int(sec.Size/uint64(v.plan.elem.size)), true)
	if sec.Size == 0 {
		return nil
	}
	b := unsafe.Slice((*byte)(slice.UnsafePointer()), sec.Size)
	if err := s.r.ReadSection(KindArray, v.name, b); err != nil {
		clear(b)
		return err
	}
	if err := checkBools(v.plan.elem, b); err != nil {
		clear(b)
		return err
	}
	if s.swap {
		swapFixed(v.plan.elem, b)
	}
	return nil
}

func (s *Restore) fillValue(v variable, sec image.Section) error {
	p := make([]byte, sec.Size)
	if err := s.r.ReadSection(KindValue, v.name, p); err != nil {
		return err
	}
	r := reading{order: byteOrder(s.r.Meta().BigEndian), swap: s.swap, rest: p}
	if err := r.value(v.plan, v.ptr, true); err != nil {
		return err
	}
	if len(r.rest) != 0 {
		return fmt.Errorf("image %s: %w: %d bytes too many", s.r.Path(), image.ErrCorrupt, len(r.rest))
	}
	return nil
}

// sliceHead is a slice seen without its type.
type sliceHead struct {
	data  unsafe.Pointer
	n     int
	isNil bool
}

func sliceAt(v variable) sliceHead {
	s := reflect.NewAt(v.plan.t, v.ptr).Elem()
	return sliceHead{s.UnsafePointer(), s.Len(), s.IsNil()}
}
