package export

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
)

// rows is what an image says of a distributed variable: it has count of all rows, from first, of width elements each; of a block of
// a grid it has some columns of them.
type rows struct {
	all, width, first, count uint64
	cols, left, wide         uint64 // columns of all, the first one here, and how many; of whole rows 1, 0, 1
}

// rowsOf reads it. ok is false for a variable that is not distributed.
func rowsOf(r *image.Reader, name string) (w rows, ok bool, err error) {
	s, ok := r.Lookup(self.KindWindow, name)
	if !ok || s.Size != 32 && s.Size != 56 {
		return w, false, nil
	}
	p := make([]byte, s.Size)
	if err := r.ReadSection(self.KindWindow, name, p); err != nil {
		return w, false, err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if r.Meta().BigEndian {
		order = binary.BigEndian
	}
	w = rows{order.Uint64(p), order.Uint64(p[8:]), order.Uint64(p[16:]), order.Uint64(p[24:]), 1, 0, 1}
	if s.Size == 56 {
		w.cols, w.left, w.wide = order.Uint64(p[32:]), order.Uint64(p[40:]), order.Uint64(p[48:])
	}
	if w.width == 0 || w.wide == 0 || w.left > w.cols || w.wide > w.cols-w.left || w.width > math.MaxInt64/w.cols ||
		w.all > math.MaxInt64/(w.width*w.cols) || w.first > w.all || w.count > w.all-w.first {
		return w, false, fmt.Errorf("image %s: variable %q: %w: rows %d to %d of %d", r.Path(), name, image.ErrCorrupt, w.first, w.first+w.count, w.all)
	}
	return w, true, nil
}

// follows reports whether w comes next after the rows of another rank.
func (w *rows) follows(last *rows) bool {
	if w.all != last.all || w.width != last.width || w.cols != last.cols {
		return false
	}
	if last.left+last.wide == last.cols {
		return w.first == last.first+last.count && w.left == 0
	}
	return w.first == last.first && w.count == last.count && w.left == last.left+last.wide
}

// ErrRows says why the parts of a variable in all images are no whole.
var ErrRows = errors.New("no whole array")

// Distributed returns the names of the variables that the first image of a snapshot has some rows of, in the order of their registration.
func Distributed(r *image.Reader) (names []string, err error) {
	for _, s := range r.Sections() {
		if !Variable(s) {
			continue
		}
		if _, ok, err := rowsOf(r, s.Name); err != nil {
			return nil, err
		} else if ok {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// Whole puts a variable together of the rows that the images of all ranks have, in order: one array, of one dimension more if rows have
// more than one element. It looks at the images' tables only; the numbers are read when the array is written. Errors: ErrKind; ErrRows with the rank whose rows do
// not go on where those before end; those of damaged images.
func Whole(images []image.Source, name string) (*Array, error) {
	var a *Array
	var last rows
	for rank, from := range images {
		err := with(from, func(r *image.Reader) error {
			w, part, err := headOf(r, name)
			if err != nil {
				return err
			}
			if rank == 0 {
				a, last = part, rows{all: w.all, width: w.width, cols: w.cols, wide: w.cols} // nothing, at the beginning
			}
			if !w.follows(&last) || part.BigEndian != a.BigEndian || part.Class != a.Class || part.Size != a.Size {
				return fmt.Errorf("%w: its rows from %d, of %d, do not go on where those before end, at %d of %d", ErrRows, w.first, w.all, last.first+last.count, last.all)
			}
			last = w
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("rank %d: variable %q: %w", rank, name, err)
		}
	}
	if end := last.first + last.count; end != last.all || last.left+last.wide != last.cols {
		return nil, fmt.Errorf("variable %q: %w: the images have %d of %d rows", name, ErrRows, end, last.all)
	}
	within := a.Shape[1:]
	a.Shape = []uint64{last.all}
	for _, n := range []uint64{last.cols, last.width} {
		if n > 1 {
			a.Shape = append(a.Shape, n)
		}
	}
	a.Shape = append(a.Shape, within...)
	a.rest = func(put func([]byte) error) error { return a.readParts(images, put) }
	return a, nil
}

// headOf returns what an image has of a variable, without its numbers.
func headOf(r *image.Reader, name string) (w rows, a *Array, err error) {
	w, ok, err := rowsOf(r, name)
	if err != nil {
		return w, nil, err
	}
	s, found := r.Lookup(self.KindArray, name)
	if !ok || !found {
		return w, nil, fmt.Errorf("%w: it is no distributed array here", ErrRows)
	}
	t, err := parse(s.Type)
	if err != nil {
		return w, nil, err
	}
	if t.slices != 1 || t.fixed == 0 || w.count > math.MaxInt64/w.width/w.wide/t.fixed || w.count*w.width*w.wide*t.fixed != s.Size {
		return w, nil, fmt.Errorf("image %s: %w: %d rows in %d bytes", r.Path(), image.ErrCorrupt, w.count, s.Size)
	}
	return w, &Array{Name: name, Class: t.class, Size: t.size, BigEndian: r.Meta().BigEndian, Shape: append([]uint64{0}, t.dims...)}, nil
}

// readParts reads the numbers, image by image; of blocks a row of them at a time.
func (a *Array) readParts(images []image.Source, put func([]byte) error) error {
	var band []block
	for rank, from := range images {
		err := with(from, func(r *image.Reader) error {
			w, _, err := rowsOf(r, a.Name)
			if err != nil {
				return err
			}
			s, ok := r.Lookup(self.KindArray, a.Name)
			if !ok {
				return image.ErrCorrupt
			}
			part, err := Read(r, s)
			if err != nil {
				return err
			}
			if band = append(band, block{w, part.Data}); w.left+w.wide < w.cols {
				return nil
			}
			err = putBand(band, put)
			band = nil
			return err
		})
		if err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	return nil
}

// block is what one image has of some rows.
type block struct {
	rows
	data []byte
}

// putBand calls put with the rows that some blocks beside each other have together.
func putBand(band []block, put func([]byte) error) error {
	if len(band) == 1 {
		return put(band[0].data)
	}
	for i := range band[0].count {
		for _, b := range band {
			n := uint64(len(b.data)) / b.count
			if err := put(b.data[i*n : (i+1)*n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// with opens an image for f.
func with(from image.Source, f func(*image.Reader) error) error {
	r, err := from.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	return f(r)
}

// Bytes is the length of all numbers.
func (a *Array) Bytes() uint64 {
	n := uint64(a.Size)
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// each calls put with the numbers, piece by piece.
func (a *Array) each(put func([]byte) error) error {
	if a.rest != nil {
		return a.rest(put)
	}
	return put(a.Data)
}
