package export

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
)

// part is some rows of an array.
type part struct {
	all, width, first int
	own               any // *[]T
}

func (p part) Part() self.Part {
	return self.Part{Rows: p.all, Width: p.width, First: p.first, Own: p.own}
}

// parts makes an image for each rank.
func parts[D self.Distributed](t *testing.T, all ...D) (images []image.Source) {
	for rank, p := range all {
		var reg self.Registry
		t.Cleanup(func() { reg.Close() })
		alone := []int32{1}
		if err := errors.Join(reg.Register("x", p), reg.Register("alone", &alone)); err != nil {
			t.Fatal(err)
		}
		c, err := reg.Copy()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), fmt.Sprint(rank))
		if _, err := c.Write(image.Path(path), image.LocalMeta(), nil, image.Options{}, nil, nil); err != nil {
			t.Fatal(err)
		}
		c.Release()
		images = append(images, image.Path(path))
	}
	return images
}

// blockOf is a block of a grid.
type blockOf struct {
	part
	cols self.Columns
}

func (b blockOf) Part() self.Part {
	p := b.part.Part()
	p.Columns = b.cols
	return p
}

// Blocks of a grid, two beside each other and one below them, are one array.
func TestWholeOfBlocks(t *testing.T) {
	of := func(first, left, wide int, own ...int16) self.Distributed {
		return blockOf{part{3, 1, first, &own}, self.Columns{All: 3, First: left, Count: wide}}
	}
	a, err := Whole(parts(t, of(0, 0, 1, 1, 4), of(0, 1, 2, 2, 3, 5, 6), of(2, 0, 3, 7, 8, 9)), "x")
	if err != nil || fmt.Sprint(a.Shape) != "[3 3]" {
		t.Fatalf("%+v, %v", a, err)
	}
	var all []byte
	if err := a.each(func(p []byte) error { all = append(all, p...); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		if v := binary.NativeEndian.Uint16(all[2*i:]); v != uint16(i+1) {
			t.Errorf("element %d is %d", i, v)
		}
	}
	if _, err := Whole(parts(t, of(0, 0, 1, 1, 4), of(0, 2, 1, 3, 6), of(2, 0, 3, 7, 8, 9)), "x"); !errors.Is(err, ErrRows) {
		t.Errorf("without a column: %v", err)
	}
}

// Rows of several images, of which one has none, are one array in either format.
func TestWhole(t *testing.T) {
	images := parts(t, part{5, 2, 0, &[]int16{1, 2, 3, 4}}, part{5, 2, 2, &[]int16{}}, part{5, 2, 2, &[]int16{5, 6, 7, 8, 9, 10}})
	r, err := images[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if names, err := Distributed(r); err != nil || fmt.Sprint(names) != "[x]" {
		t.Errorf("distributed: %v, %v", names, err)
	}
	a, err := Whole(images, "x")
	if err != nil || fmt.Sprint(a.Shape) != "[5 2]" || a.Bytes() != 20 {
		t.Fatalf("%+v, %v", a, err)
	}
	want := bytesOf(t, []int16{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	var b bytes.Buffer
	if err := WriteNPY(&b, a); err != nil {
		t.Fatal(err)
	}
	if got, err := parseNPY(b.Bytes()); err != nil || !bytes.Equal(got.Data, want) || fmt.Sprint(got.Shape) != "[5 2]" {
		t.Errorf("npy: %+v, %v", got, err)
	}
	var both [2]atEnd
	for i, x := range []*Array{a, {Name: "x", Class: a.Class, Size: a.Size, BigEndian: a.BigEndian, Shape: a.Shape, Data: want}} {
		h := NewHDF5(&both[i])
		if err := errors.Join(h.Add(x), h.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(both[0].b, both[1].b) {
		t.Error("the file of HDF5 is not that of an array in one piece")
	}
	vectors, err := Whole(parts(t, part{2, 1, 0, &[][3]float64{{1, 2, 3}}}, part{2, 1, 1, &[][3]float64{{4, 5, 6}}}), "x")
	if err != nil || fmt.Sprint(vectors.Shape) != "[2 3]" {
		t.Errorf("%+v, %v", vectors, err)
	}
}

// atEnd is a File in memory.
type atEnd struct{ b []byte }

func (f *atEnd) Write(p []byte) (int, error)             { f.b = append(f.b, p...); return len(p), nil }
func (f *atEnd) WriteAt(p []byte, at int64) (int, error) { return copy(f.b[at:], p), nil }

// Parts that are no whole are refused with the rank.
func TestNotWhole(t *testing.T) {
	first := part{4, 1, 0, &[]int16{1, 2}}
	for says, images := range map[string][]image.Source{
		"the images have 2 of 4 rows":      parts(t, first),
		"rank 1":                           parts(t, first, part{4, 1, 3, &[]int16{4}}),
		"rank 2":                           parts(t, first, part{4, 1, 2, &[]int16{3, 4}}, part{4, 1, 0, &[]int16{}}),
		"rank 1: variable \"x\": no whole": parts(t, first, part{4, 1, 2, &[]int32{3, 4}}),
	} {
		if _, err := Whole(images, "x"); !errors.Is(err, ErrRows) || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q in %v", says, err)
		}
	}
	if _, err := Whole(parts(t, part{1, 1, 0, &[]int16{1}}), "alone"); !errors.Is(err, ErrRows) {
		t.Error(err)
	}
	if _, err := Whole(parts(t, part{1, 1, 0, &[]struct{ A int32 }{{1}}}), "x"); !errors.Is(err, ErrKind) {
		t.Error(err)
	}
}
