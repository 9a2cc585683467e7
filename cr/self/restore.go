package self

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Restore gives the variables of an image back. Its methods may be called by
// several goroutines at once, Close last.
type Restore struct {
	r    *image.Reader
	swap bool // the image is of the other byte order
	msgs []engine.Saved

	windows map[string]*window // by variable
	digests map[string][]byte
	claims
}

// claims are the variables that were saved, and those of them that the program has asked for.
type claims struct {
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
	s := &Restore{r: r, windows: map[string]*window{}, digests: map[string][]byte{}}
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
		if sec.Kind == KindArray || sec.Kind == KindValue {
			s.names = append(s.names, sec.Name)
			continue
		}
		if err := s.note(sec); err != nil {
			return err
		}
	}
	return nil
}

// note reads a section that is not a variable.
func (s *Restore) note(sec image.Section) (err error) {
	order := byteOrder(s.r.Meta().BigEndian)
	var p []byte
	switch {
	case sec.Kind == KindMessages, sec.Kind == KindWindow && (sec.Size == windowSize || sec.Size == blockSize), sec.Kind == KindDigest && sec.Size == sha256.Size:
		if p, err = s.r.Bytes(sec.Kind, sec.Name); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: a section of kind %q and %d bytes", ErrBackend, sec.Kind, sec.Size)
	}
	switch sec.Kind {
	case KindMessages:
		s.msgs, err = decodeMessages(p, order, s.swap)
	case KindWindow:
		s.windows[sec.Name], err = decodeWindow(p, order)
	case KindDigest:
		s.digests[sec.Name] = p
	}
	return err
}

// Share says of a variable which rows of a whole the image has, or that it is to be the same on all ranks; "" if neither.
func (s *Restore) Share(name string) string {
	if w := s.windows[name]; w != nil {
		return w.String()
	}
	if s.digests[name] != nil {
		return "the same on all ranks"
	}
	return ""
}

// Meta is the image's.
func (s *Restore) Meta() image.Meta { return s.r.Meta() }

// Names lists the variables of the image in the order of their registration.
func (c *claims) Names() []string { return append([]string(nil), c.names...) }

// Unclaimed lists the variables that no Fill has asked for yet.
func (c *claims) Unclaimed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []string
	for _, n := range c.names {
		if !c.filled[n] {
			left = append(left, n)
		}
	}
	return left
}

// claim records that the program has a variable.
func (c *claims) claim(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.filled == nil {
		c.filled = map[string]bool{}
	}
	c.filled[name] = true
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
	sec, err := s.find(&v)
	if err != nil {
		return err
	}
	if v.win != nil {
		err = s.fillOwn(v, sec)
	} else {
		err = s.fill(v, sec)
	}
	if err != nil {
		return fmt.Errorf("variable %q: %w", name, err)
	}
	s.claim(name)
	return nil
}

func (s *Restore) fill(v variable, sec image.Section) error {
	if sec.Kind == KindArray {
		return s.fillArray(v, sec)
	}
	return s.fillValue(v, sec)
}

// find finds a variable in the image. Errors: ErrMissing, ErrType.
func (s *Restore) find(v *variable) (image.Section, error) {
	sec, ok := s.r.Lookup(KindArray, v.name)
	if !ok {
		sec, ok = s.r.Lookup(KindValue, v.name)
	}
	if !ok {
		return sec, fmt.Errorf("variable %q: %w %s (it holds %v); was the program changed?", v.name, ErrMissing, s.r.Path(), short(s.names))
	}
	if sec.Type != v.typ {
		return sec, fmt.Errorf("variable %q: %w: %s in %s, now %s (%v)", v.name, ErrType, sec.Type, s.r.Path(), v.typ, v.plan.t)
	}
	return sec, nil
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
	if err := sec.Fits(); err != nil {
		return fmt.Errorf("image %s: %q: %w", s.r.Path(), v.name, err)
	}
	slice := reflect.NewAt(v.plan.t, v.ptr).Elem()
	room(slice, int(sec.Size/uint64(v.plan.elem.size)), true)
	if sec.Size == 0 {
		return nil
	}
	b := unsafe.Slice((*byte)(slice.UnsafePointer()), sec.Size)
	if err := s.readRows(v, 0, b); err != nil {
		clear(b)
		return err
	}
	return nil
}

func (s *Restore) fillValue(v variable, sec image.Section) error {
	p, err := s.r.Bytes(KindValue, v.name)
	if err != nil {
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
