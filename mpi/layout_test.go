package mpi

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// listed is a layout as the list of its indices: what all else must agree with.
type listed struct {
	at            []int
	lower, extent int
}

func (l listed) moved(n int) []int {
	at := slices.Clone(l.at)
	for i := range at {
		at[i] += n
	}
	return at
}

// drawLayout draws a layout and its list.
func drawLayout(t *rapid.T, depth int) (Layout, listed) {
	small := func(name string) int { return rapid.IntRange(0, 4).Draw(t, name) }
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind = 0
	}
	switch kind {
	case 1:
		n, length, stride := 1+small("count"), 1+small("length"), rapid.IntRange(-6, 6).Draw(t, "stride")
		var m listed
		for i := range n {
			for j := range length {
				m.at = append(m.at, i*stride+j)
			}
		}
		m.lower = min(0, (n-1)*stride)
		m.extent = max(0, (n-1)*stride) + length - m.lower
		return Vector(n, length, stride), m
	case 2:
		return drawJoined(t, depth)
	case 3:
		return drawSubarray(t)
	case 4:
		l, m := drawLayout(t, depth-1)
		m.lower, m.extent = rapid.IntRange(-3, 3).Draw(t, "lower"), rapid.IntRange(-9, 9).Draw(t, "extent")
		return l.Resized(m.lower, m.extent), m
	case 5:
		l, m := drawLayout(t, depth-1)
		n, stride := 1+small("times"), rapid.IntRange(-9, 9).Draw(t, "stride")
		var r listed
		for i := range n {
			r.at = append(r.at, m.moved(i*stride)...)
		}
		r.lower = m.lower + min(0, (n-1)*stride)
		r.extent = m.lower + m.extent + max(0, (n-1)*stride) - r.lower
		return l.Repeat(n, stride), r
	case 6:
		outer, m := drawLayout(t, depth-1)
		inner, k := drawLayout(t, depth-1)
		r := listed{lower: m.lower * k.extent, extent: m.extent * k.extent}
		for _, at := range m.at {
			r.at = append(r.at, k.moved(at*k.extent)...)
		}
		return outer.Of(inner), r
	}
	n := small("n")
	m := listed{extent: n}
	for i := range n {
		m.at = append(m.at, i)
	}
	return Contiguous(n), m
}

func drawJoined(t *rapid.T, depth int) (Layout, listed) {
	var parts []Layout
	var displs []int
	var m listed
	upper := 0
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		l, k := drawLayout(t, depth-1)
		at := rapid.IntRange(-9, 9).Draw(t, "displ")
		parts, displs = append(parts, l), append(displs, at)
		if len(k.at) == 0 {
			continue
		}
		if len(m.at) == 0 {
			m.lower, upper = k.lower+at, k.lower+k.extent+at
		}
		m.lower, upper = min(m.lower, k.lower+at), max(upper, k.lower+k.extent+at)
		m.at = append(m.at, k.moved(at)...)
	}
	m.extent = upper - m.lower
	return Joined(parts, displs), m
}

func drawSubarray(t *rapid.T) (Layout, listed) {
	n := rapid.IntRange(1, 3).Draw(t, "dimensions")
	dims, sub, start := make([]int, n), make([]int, n), make([]int, n)
	all, some := 1, 1
	for d := range n {
		dims[d] = rapid.IntRange(1, 4).Draw(t, "dim")
		start[d] = rapid.IntRange(0, dims[d]).Draw(t, "start")
		sub[d] = rapid.IntRange(0, dims[d]-start[d]).Draw(t, "sub")
		all *= dims[d]
		some *= sub[d]
	}
	m := listed{extent: all}
	for k := range some {
		at, step := 0, 1
		for d := n - 1; d >= 0; d-- {
			at += (start[d] + k%sub[d]) * step
			k /= sub[d]
			step *= dims[d]
		}
		m.at = append(m.at, at)
	}
	return Subarray(dims, sub, start), m
}

func TestLayoutAsListed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, m := drawLayout(t, 3)
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
		if l.Size() != len(m.at) || l.Extent() != m.extent && len(m.at) > 0 {
			t.Fatalf("size %d, extent %d; want %d, %d", l.Size(), l.Extent(), len(m.at), m.extent)
		}
		lower, upper := l.Bounds()
		if len(m.at) > 0 && (lower != slices.Min(m.at) || upper != slices.Max(m.at)+1) {
			t.Fatalf("bounds %d, %d of %v", lower, upper, m.at)
		}
		shift := rapid.IntRange(0, 3).Draw(t, "room") - lower
		checkPacked(t, l.Shift(shift), m.moved(shift))
	})
}

// checkPacked packs by a layout, and unpacks what was packed and less.
func checkPacked(t *rapid.T, l Layout, at []int) {
	_, upper := l.Bounds()
	data := make([]int, upper+2)
	for i := range data {
		data[i] = 100 + i
	}
	want := make([]int, len(at))
	for i, k := range at {
		want[i] = data[k]
	}
	got := make([]int, len(at))
	if n, err := (View[int]{data, l}).Pack(got); n != len(at) || err != nil || !slices.Equal(got, want) {
		t.Fatalf("packed %v, %d, %v; want %v", got, n, err, want)
	}
	sorted := slices.Sorted(slices.Values(at))
	if twice := len(slices.Compact(sorted)) < len(at); l.body.distinct() == twice {
		t.Fatalf("distinct is %v: %v", !twice, at)
	} else if twice {
		if _, err := (View[int]{data, l}).Unpack(got); !errors.Is(err, ErrLayout) {
			t.Fatal(err)
		}
		return
	}
	k := rapid.IntRange(0, len(at)).Draw(t, "elements")
	after, expected := make([]int, len(data)), make([]int, len(data))
	for i, p := range at[:k] {
		expected[p] = want[i]
	}
	if n, err := (View[int]{after, l}).Unpack(got[:k]); n != k || err != nil || !slices.Equal(after, expected) {
		t.Fatalf("unpacked %d, %v: %v; want %v", n, err, after, expected)
	}
	p := make([]byte, 8*len(at))
	back := make([]int, len(data))
	full := View[int]{data, l}
	if _, err := full.PackExternal(p); err != nil {
		t.Fatal(err)
	}
	if _, err := (View[int]{back, l}).UnpackExternal(p[:8*k]); err != nil || !slices.Equal(back, expected) {
		t.Fatalf("from external32: %v, %v; want %v", err, back, expected)
	}
}

func TestExternal32(t *testing.T) {
	type cell struct {
		T float32
		N int16
		C complex64
	}
	v := View[cell]{[]cell{{1, 2, complex(3, 4)}, {}, {-1, -2, complex(0, 1)}}, Vector(2, 1, 2)}
	p := make([]byte, 40)
	n, err := v.PackExternal(p)
	want := []byte{0x3f, 0x80, 0, 0, 0, 2, 0, 0, 0x40, 0x40, 0, 0, 0x40, 0x80, 0, 0,
		0xbf, 0x80, 0, 0, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0x3f, 0x80, 0, 0}
	if err != nil || n != 32 || !bytes.Equal(p[:n], want) {
		t.Fatalf("%d, %v: % x", n, err, p[:n])
	}
}

// Layouts that make no sense are refused where they are used.
func TestBadLayouts(t *testing.T) {
	data := make([]int, 10)
	huge := Contiguous(1 << 40)
	for name, l := range map[string]Layout{
		"negative count":      Contiguous(-1),
		"negative vector":     Vector(2, -1, 3),
		"lists of two sizes":  Indexed([]int{1, 2}, []int{0}),
		"a negative length":   Indexed([]int{-1}, []int{0}),
		"beyond its array":    Subarray([]int{4}, []int{3}, []int{2}),
		"no dimension":        Subarray(nil, nil, nil),
		"larger than memory":  huge.Of(huge),
		"repeated too far":    huge.Repeat(1<<30, 1<<40),
		"resized too far":     Contiguous(1).Resized(0, 1<<62),
		"shifted too far":     Contiguous(1).Shift(1 << 62),
		"made of a bad one":   Contiguous(2).Of(Contiguous(-1)),
		"behind the data":     Vector(3, 1, 5),
		"before the data":     Contiguous(2).Shift(-1),
		"a bad one, repeated": Contiguous(-1).Repeat(2, 1),
		"repeated negatively": Contiguous(1).Repeat(-1, 1),
		"a bad one among two": Joined([]Layout{Contiguous(1), Contiguous(-1)}, []int{0, 1}),
	} {
		if _, err := (View[int]{data, l}).Pack(make([]int, 20)); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: Pack: %v", name, err)
		}
		if _, err := (View[int]{data, l}).Unpack(nil); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: Unpack: %v", name, err)
		}
		if _, err := (View[int]{data, l}).UnpackExternal(nil); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: UnpackExternal: %v", name, err)
		}
	}
}

// A layout without elements has no extent, however it was made, unless it was given one; parts without elements change
// nothing of one that has some.
func TestExtentOfNothing(t *testing.T) {
	for name, x := range map[string]struct {
		l            Layout
		size, extent int
	}{
		"empty blocks":           {Vector(3, 0, 7), 0, 0},
		"no blocks":              {Vector(0, 3, 7), 0, 0},
		"empty, again and again": {Indexed([]int{0, 0}, []int{5, -5}).Repeat(4, 9), 0, 0},
		"empty but wide":         {Contiguous(0).Resized(0, 6).Repeat(2, 6), 0, 12},
		"an empty part":          {Joined([]Layout{Contiguous(2), Vector(2, 0, 50)}, []int{3, 90}), 2, 2},
		"an empty block":         {Indexed([]int{1, 0, 2}, []int{4, -30, 7}), 3, 5},
		"a part of nothing":      {Subarray([]int{4, 5}, []int{0, 2}, []int{1, 1}), 0, 20},
	} {
		if x.l.Err() != nil || x.l.Size() != x.size || x.l.Extent() != x.extent {
			t.Errorf("%s: %d elements, extent %d, %v", name, x.l.Size(), x.l.Extent(), x.l.Err())
		}
	}
}
