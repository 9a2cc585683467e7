package self

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Library has the images of all ranks of a snapshot.
type Library interface {
	// Image is where the image of a rank can be read. Several copies of it may be known, counted from 0. To open
	// one more than there are is io.EOF.
	Image(rank, copy int) image.Source
}

// Resized gives the variables of a snapshot back to one rank of another number of ranks. It reads of each image what
// that rank needs. Its methods may be called by several goroutines at once, Close last.
type Resized struct {
	lib    Library
	images int
	base   int    // the image that has what is the same on all ranks
	whom   string // this rank and its job, for errors
	meta   image.Meta
	claims

	reading sync.Mutex
	open    map[int]*opened
	order   []*opened // that are open, the one that was opened first in front
}

// opened is an image of which something was read.
type opened struct {
	*Restore     // nil: the copy is not open
	copy     int // counted from 0
}

// OpenResized opens the images of a snapshot of so many ranks for one rank of size others. Errors: as of Open;
// ErrResize if a message was under way to the rank whose image is opened first.
func OpenResized(lib Library, images, rank, size int) (*Resized, error) {
	s := &Resized{lib: lib, images: images, base: rank * images / size, whom: fmt.Sprintf("rank %d of %d", rank, size), open: map[int]*opened{}}
	err := s.with(s.base, func(r *Restore) error {
		s.meta, s.names = r.Meta(), r.names
		return under(r.msgs, &s.meta)
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Meta is that of one of the images.
func (s *Resized) Meta() image.Meta { return s.meta }

// Messages are none.
func (s *Resized) Messages() []engine.Saved { return nil }

// Close closes all images.
func (s *Resized) Close() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	var errs []error
	for _, o := range s.open {
		if o.Restore != nil {
			errs = append(errs, o.Restore.Close())
		}
	}
	s.open = nil
	return errors.Join(errs...)
}

// with calls f with the image of a rank, and again with further copies of it as long as that fails.
func (s *Resized) with(rank int, f func(*Restore) error) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	var errs []error
	for range mostCopies {
		o, err := s.at(rank)
		if err == nil {
			err = f(o.Restore)
		} else if errors.Is(err, io.EOF) && len(errs) > 0 {
			break
		}
		if err == nil || ofProgram(err) {
			return err
		}
		errs = append(errs, err)
		s.shut(o)
		o.copy++
	}
	return errors.Join(errs...)
}

// mostCopies bounds how many copies of an image are tried.
const mostCopies = 32

// ofProgram reports whether another copy of the image would not help.
func ofProgram(err error) bool {
	return errors.Is(err, ErrResize) || errors.Is(err, ErrType) || errors.Is(err, ErrMissing)
}

// shut closes an image. It was read only, so an error says nothing.
func (s *Resized) shut(o *opened) {
	if o.Restore == nil {
		return
	}
	o.Restore.Close()
	o.Restore = nil
	s.order = slices.DeleteFunc(s.order, func(x *opened) bool { return x == o })
}

// at opens the image of a rank, if it is not open. Caller holds reading.
func (s *Resized) at(rank int) (o *opened, err error) {
	if o = s.open[rank]; o == nil {
		o = &opened{}
		s.open[rank] = o
	}
	if o.Restore != nil {
		return o, nil
	}
	r, err := Open(s.lib.Image(rank, o.copy))
	if err != nil {
		return o, err
	}
	if m := r.Meta(); m.Rank != rank || m.Size != s.images {
		r.Close()
		return o, fmt.Errorf("%w: %s is the image of rank %d of %d, and that of rank %d of %d is wanted", image.ErrCorrupt, r.r.Path(), m.Rank, m.Size, rank, s.images)
	}
	o.Restore, s.order = r, append(s.order, o)
	if len(s.order) > mostOpen {
		s.shut(s.order[0]) // it is opened again if need be
	}
	return o, nil
}

// mostOpen bounds how many images are open at once. Each is a file, or a connection to the agent, of each rank.
const mostOpen = 64

// Fill sets a variable to what the snapshot has of it: a Distributed one to its rows, a Replicated one to its value. Errors:
// as of Restore, and ErrResize for any other.
func (s *Resized) Fill(name string, ptr any) error {
	v, err := describe(name, ptr)
	if err != nil {
		return err
	}
	err = s.with(s.base, func(r *Restore) error {
		sec, err := r.find(&v)
		switch {
		case err != nil:
			return err
		case v.win != nil: // also of a rank that has no rows, and will read none
			_, err = r.window(&v)
			return err
		case v.same && r.digests[name] != nil:
			return r.fill(v, sec)
		}
		return fmt.Errorf("%w: %s", ErrResize, remedy(sec))
	})
	if err == nil && v.win != nil {
		err = s.fillRows(v)
	}
	if err != nil {
		return fmt.Errorf("variable %q on %s: %w", name, s.whom, err)
	}
	s.claim(name)
	return nil
}

// FilePrefix begins the names of variables that say where a file of cr.File stands.
const FilePrefix = "file "

// ofFile reports whether a variable is one.
func ofFile(sec image.Section) bool {
	return strings.HasPrefix(sec.Name, FilePrefix) && strings.HasPrefix(sec.Type, "struct{Suffix string; ")
}

// remedy says how a variable becomes one that any number of ranks can restore.
func remedy(sec image.Section) string {
	if ofFile(sec) {
		return "a file of cr.File is one rank's: write it with os.OpenFile where the number of ranks may change, and see to it in cr.OnRestart"
	}
	text := "each rank has saved one of its own: if it is the same on all ranks, register it as dist.Replicated(&variable)"
	if sec.Kind == KindArray {
		text += "; if it is rows of a whole, make it a dist.Array"
	}
	return text
}

// fillRows reads the rows of a Distributed variable out of the images that have them.
func (s *Resized) fillRows(v variable) error {
	all, err := stretches(s.images, func(i int) (w *window, err error) {
		err = s.with(i, func(r *Restore) error {
			w, err = r.window(&v)
			return err
		})
		return w, err
	}, v.win)
	if err != nil {
		return err
	}
	size := int(v.plan.elem.size)
	h := sliceAt(v)
	mem := unsafe.Slice((*byte)(h.data), h.n*size)
	for _, x := range all {
		if err := s.with(x.image, func(r *Restore) error { return r.readStretch(v, x, mem) }); err != nil {
			clear(mem)
			return err
		}
	}
	return nil
}

// readStretch reads what an image has of the memory of a variable. Rows that are alike in both are read in one; else rows of the
// image are read, some at a time, and the columns that are wanted are copied.
func (s *Restore) readStretch(v variable, x stretch, mem []byte) error {
	w, err := s.window(&v)
	if err != nil {
		return err
	}
	elem := int(v.plan.elem.size)
	theirs, ours := w.row()*elem, v.win.row()*elem // bytes of a row
	if w.columns() == v.win.columns() {
		return s.readRows(v, x.from*theirs, mem[x.to*ours:][:x.rows*ours])
	}
	cell := w.width * elem
	buf := make([]byte, min(x.rows, max(1, stretchAtOnce/theirs))*theirs)
	for done := 0; done < x.rows; {
		n := min(len(buf)/theirs, x.rows-done)
		if err := s.readRows(v, (x.from+done)*theirs, buf[:n*theirs]); err != nil {
			return err
		}
		for i := range n {
			copy(mem[(x.to+done+i)*ours+x.right*cell:][:x.cols*cell], buf[i*theirs+x.left*cell:])
		}
		done += n
	}
	return nil
}

// stretchAtOnce is about how many bytes are read at once of rows whose columns are cut in another way.
const stretchAtOnce = 1 << 20

// window is what an image has of a Distributed variable.
func (s *Restore) window(v *variable) (*window, error) {
	w := s.windows[v.name]
	sec, ok := s.r.Lookup(KindArray, v.name)
	switch {
	case w == nil || !ok:
		return nil, fmt.Errorf("%w: it is not distributed in %s: %s", ErrResize, s.r.Path(), remedy(image.Section{Name: v.name, Kind: KindArray}))
	case sec.Type != v.typ || !w.fits(v.win):
		return nil, fmt.Errorf("%w: %s of %s in %s, now %s of %s", ErrType, w, sec.Type, s.r.Path(), v.win, v.typ)
	case sec.Size != uint64(w.count*w.row())*uint64(v.plan.elem.size):
		return nil, fmt.Errorf("image %s: %w: %d bytes for %s", s.r.Path(), image.ErrCorrupt, sec.Size, w)
	}
	return w, nil
}

// readRows reads elements of an array, from a byte on.
func (s *Restore) readRows(v variable, from int, p []byte) error {
	if err := s.r.ReadRange(KindArray, v.name, uint64(from), p); err != nil {
		return err
	}
	if err := checkBools(v.plan.elem, p); err != nil {
		return err
	}
	if s.swap {
		swapFixed(v.plan.elem, p)
	}
	return nil
}

// fillOwn sets a Distributed variable of as many ranks as there were: its rows are those of this rank's image.
func (s *Restore) fillOwn(v variable, sec image.Section) error {
	w := s.windows[v.name]
	if w == nil { // a plain slice then, of as many elements
		w = v.win
	}
	if sec.Kind != KindArray || *w != *v.win || sec.Size != uint64(sliceAt(v).n)*uint64(v.plan.elem.size) {
		return fmt.Errorf("%w: %s in %s, now %s: another layout for the same number of ranks", ErrType, w, s.r.Path(), v.win)
	}
	return s.fillArray(v, sec)
}
