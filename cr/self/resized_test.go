package self

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// rowsOf is a Distributed variable.
type rowsOf[T any] struct {
	rows, width, first int
	own                []T
}

func (r *rowsOf[T]) Part() Part {
	return Part{Rows: r.rows, Width: r.width, First: r.first, Own: &r.own}
}

// cuts draws where n rows are cut, at most so often; parts may be empty.
func cuts(t *rapid.T, n, most int, what string) []int {
	all := rapid.SliceOfN(rapid.IntRange(0, n), 0, most).Draw(t, what)
	slices.Sort(all)
	return slices.Concat([]int{0}, all, []int{n})
}

// For any n, m and windows each row comes from the image that has it, and few images are looked at.
func TestStretches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(0, 30).Draw(t, "rows")
		from, to := cuts(t, rows, 9, "from"), cuts(t, rows, 9, "to")
		n := len(from) - 1
		for rank := range len(to) - 1 {
			asked := map[int]bool{}
			want := &window{rows: rows, width: 1, first: to[rank], count: to[rank+1] - to[rank]}
			all, err := stretches(n, func(i int) (*window, error) {
				asked[i] = true
				return &window{rows: rows, width: 1, first: from[i], count: from[i+1] - from[i]}, nil
			}, want)
			if err != nil {
				t.Fatal(err)
			}
			next, between := 0, 0
			for _, x := range all {
				if x.to != next || x.rows < 1 || x.from < 0 || from[x.image]+x.from != want.first+x.to || from[x.image]+x.from+x.rows > from[x.image+1] {
					t.Fatalf("%v of %v, wanted %v", x, from, want)
				}
				next += x.rows
			}
			if next != want.count {
				t.Fatalf("%d rows of %v", next, want)
			}
			if len(all) > 0 {
				between = all[len(all)-1].image - all[0].image + 1
			}
			if most := bits.Len(uint(n)) + 1 + between; len(asked) > most {
				t.Fatalf("%d of %d images were looked at, at most %d", len(asked), n, most)
			}
		}
	})
}

// A hole between windows is found, not read over.
func TestStretchesHole(t *testing.T) {
	at := []*window{{rows: 10, width: 1, count: 4}, {rows: 10, width: 1, first: 5, count: 5}}
	_, err := stretches(2, func(i int) (*window, error) { return at[i], nil }, &window{rows: 10, width: 1, first: 2, count: 6})
	if !errors.Is(err, image.ErrCorrupt) || !strings.Contains(err.Error(), "row 4") {
		t.Error(err)
	}
}

// piled is a Library of files. Before the good copy of each lie those that spoil has made.
type piled struct {
	good  []string
	spoil []string
}

func (p *piled) Image(rank, copy int) image.Source {
	all := append(slices.Clone(p.spoil), p.good[rank])
	if copy < len(all) {
		return image.Path(all[copy])
	}
	return gone{}
}

type gone struct{}

func (gone) Open() (*image.Reader, error) { return nil, io.EOF }
func (gone) String() string               { return "gone" }

// images writes one image for each rank.
func images(t testing.TB, dir string, n int, swap bool, register func(rank int, r *Registry) []error, msgs ...engine.Saved) *piled {
	t.Helper()
	p := &piled{}
	for rank := range n {
		r := Registry{swap: swap}
		if err := errors.Join(register(rank, &r)...); err != nil {
			t.Fatal(err)
		}
		c, err := r.Copy()
		if err != nil {
			t.Fatal(err)
		}
		meta := image.LocalMeta()
		meta.Rank, meta.Size = rank, n
		path := filepath.Join(dir, fmt.Sprint(n, ".", rank))
		if _, err := c.Write(image.Path(path), meta, msgs, image.Options{NoDirect: true, NoFolder: true, Passing: true, Workers: 1}, nil, nil); err != nil {
			t.Fatal(err)
		}
		c.Release()
		r.Close()
		p.good = append(p.good, path)
	}
	return p
}

// sources are the images for Resizable.
func (p *piled) sources() []image.Source { return image.Paths(p.good) }

// TestAnySizeComesBack saves rows on n ranks and has m others read them, in either byte order.
func TestAnySizeComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rows, width := rapid.IntRange(0, 40).Draw(rt, "rows"), rapid.IntRange(1, 300).Draw(rt, "width")
		from, to := cuts(rt, rows, 3, "from"), cuts(rt, rows, 5, "to")
		whole := make([]int32, rows*width)
		for i := range whole {
			whole[i] = int32(i) * 77
		}
		part := func(at []int, rank int) *rowsOf[int32] {
			return &rowsOf[int32]{rows, width, at[rank], slices.Clone(whole[at[rank]*width : at[rank+1]*width])}
		}
		step := rapid.Int().Draw(rt, "step")
		p := images(t, t.TempDir(), len(from)-1, rapid.Bool().Draw(rt, "other order"), func(rank int, r *Registry) []error {
			return []error{r.Register("x", part(from, rank)), r.Register("step", Replicated{&step})}
		})
		if err := Resizable(p.sources()); err != nil {
			rt.Fatal(err)
		}
		for rank := range len(to) - 1 {
			s, err := OpenResized(p, len(from)-1, rank, len(to)-1)
			if err != nil {
				rt.Fatal(err)
			}
			x, again := part(to, rank), 0
			want := slices.Clone(x.own)
			clear(x.own)
			if err := errors.Join(s.Fill("x", x), s.Fill("step", Replicated{&again})); err != nil {
				rt.Fatal(err)
			}
			if left := s.Unclaimed(); !slices.Equal(x.own, want) || again != step || len(left) > 0 {
				rt.Fatalf("rank %d: %v, want %v; step %d, want %d; unclaimed %v", rank, x.own, want, again, step, left)
			}
			if err := s.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// TestDamagedCopy: an image of which a copy is damaged, or missing, is read of the next copy.
func TestDamagedCopy(t *testing.T) {
	x := func() *rowsOf[float64] { return &rowsOf[float64]{2, 3, 0, []float64{1, 2, 3, 4, 5, 6}} }
	p := images(t, t.TempDir(), 1, false, func(rank int, r *Registry) []error { return []error{r.Register("x", x())} })
	p.spoil = []string{filepath.Join(t.TempDir(), "missing"), "/dev/null"}
	s, err := OpenResized(p, 1, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	half := &rowsOf[float64]{2, 3, 1, make([]float64, 3)}
	if err := s.Fill("x", half); err != nil || !slices.Equal(half.own, []float64{4, 5, 6}) {
		t.Error(half.own, err)
	}
	p.good[0] = p.spoil[0]
	fresh := &Resized{lib: p, images: 1, open: map[int]*opened{}}
	for range 2 { // also when it is known that no copy is good
		if err := fresh.with(0, func(*Restore) error { return nil }); err == nil {
			t.Error("no copy is good")
		}
	}
	if _, err := OpenResized(p, 1, 1, 2); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

// TestFewAreOpen: one rank reads the images of many, and never has all of them open.
func TestFewAreOpen(t *testing.T) {
	const n = mostOpen + 9
	dir := t.TempDir()
	p := images(t, dir, n, false, func(rank int, r *Registry) []error {
		return []error{r.Register("x", &rowsOf[int16]{n, 1, rank, []int16{int16(rank)}}), r.Register("y", &rowsOf[int16]{n, 1, rank, []int16{int16(-rank)}})}
	})
	s, err := OpenResized(p, n, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, sign := range map[string]int{"x": 1, "y": -1} {
		all := &rowsOf[int16]{n, 1, 0, make([]int16, n)}
		if err := s.Fill(name, all); err != nil {
			t.Fatal(err)
		}
		for i, v := range all.own {
			if int(v) != sign*i {
				t.Fatalf("row %d of %s is %d", i, name, v)
			}
		}
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	open := 0
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) {
			open++
		}
	}
	if err != nil || open < 2 || open > mostOpen {
		t.Errorf("%d images are open, %v", open, err)
	}
}

// TestOtherRows: a program with other rows is refused by each of its ranks, one without rows too.
func TestOtherRows(t *testing.T) {
	p := images(t, t.TempDir(), 1, false, func(rank int, r *Registry) []error {
		return []error{r.Register("x", &rowsOf[int16]{3, 1, 0, []int16{1, 2, 3}})}
	})
	s, err := OpenResized(p, 1, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, x := range []*rowsOf[int16]{{0, 1, 0, []int16{}}, {4, 1, 0, []int16{}}, {4, 1, 0, []int16{0}}, {3, 2, 0, []int16{}}} {
		if err := s.Fill("x", x); !errors.Is(err, ErrType) {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// TestPadding: what lies between the fields of a value is no difference.
func TestPadding(t *testing.T) {
	type pair struct {
		on bool
		x  float64
		n  int8
	}
	type clock struct {
		last [2]pair
		name string
	}
	p := images(t, t.TempDir(), 2, false, func(rank int, r *Registry) []error {
		list, one, large := []pair{{true, 1, 2}, {false, 3, 4}}, clock{[2]pair{{true, 5, 6}, {true, 7, 8}}, "c"}, make([]pair, bigPiece)
		for _, v := range []*pair{&list[1], &one.last[0], &large[9]} {
			b := unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
			b[1], b[len(b)-1] = byte(rank), byte(rank)
		}
		return []error{r.Register("list", Replicated{&list}), r.Register("one", Replicated{&one}), r.Register("large", Replicated{&large}),
			r.Register("by", Replicated{&map[string]pair{"a": list[1]}})}
	})
	if err := Resizable(p.sources()); err != nil {
		t.Error(err)
	}
}

// TestNotResizable: what is in the way is named, by those who look at all images and by a rank that reads some.
func TestNotResizable(t *testing.T) {
	type registered = func(rank int, r *Registry) []error
	rows := func(rank, first int) *rowsOf[int64] { return &rowsOf[int64]{8, 1, first, make([]int64, 4)} }
	for name, x := range map[string]struct {
		f    registered
		msgs []engine.Saved
		want []string
	}{
		"plain": {func(rank int, r *Registry) []error {
			return []error{r.Register("x", rows(rank, 4*rank)), r.Register("mine", &rank)}
		}, nil, []string{`"mine" on all ranks`, "dist.Replicated"}},
		"a slice": {func(rank int, r *Registry) []error {
			return []error{r.Register("v", &[]int{rank})}
		}, nil, []string{`"v"`, "dist.Array"}},
		"unequal": {func(rank int, r *Registry) []error {
			return []error{r.Register("step", Replicated{&rank})}
		}, nil, []string{`"step" on rank 1`, "not that of rank 0"}},
		"overlap": {func(rank int, r *Registry) []error {
			return []error{r.Register("x", rows(rank, 3*rank))}
		}, nil, []string{`"x" on rank 1`, "in their order"}},
		"begins late": {func(rank int, r *Registry) []error {
			return []error{r.Register("x", rows(rank, 4))}
		}, nil, []string{`"x" on all ranks`, "row 0"}},
		"ends early": {func(rank int, r *Registry) []error {
			return []error{r.Register("x", &rowsOf[int64]{9, 1, 4 * rank, make([]int64, 4)})}
		}, nil, []string{`"x" on rank 1`, "not the last"}},
		"on one rank": {func(rank int, r *Registry) []error {
			if rank == 0 {
				return []error{r.Register("a", Replicated{new(int)})}
			}
			return []error{r.Register("a", Replicated{new(int)}), r.Register("b", Replicated{new(int)})}
		}, nil, []string{`"b" is registered by 1 of 2`}},
		"unlike": {func(rank int, r *Registry) []error {
			if rank == 0 {
				return []error{r.Register("x", rows(0, 0))}
			}
			return []error{r.Register("x", Replicated{&[]int64{}})}
		}, nil, []string{`"x" on rank 1`, "alike"}},
		"type": {func(rank int, r *Registry) []error {
			if rank == 0 {
				return []error{r.Register("x", Replicated{new(int8)})}
			}
			return []error{r.Register("x", Replicated{new(int16)})}
		}, nil, []string{`"x" on rank 1`, "int16"}},
		"message": {func(rank int, r *Registry) []error {
			return []error{r.Register("x", rows(rank, 4*rank))}
		}, []engine.Saved{{Ctx: 4, Source: 1, Tag: 9, Data: []byte("late")}}, []string{"1 messages were under way to rank 0", "4 bytes from rank 1 with tag 9"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := images(t, t.TempDir(), 2, false, x.f, x.msgs...)
			err := Resizable(p.sources())
			if !errors.Is(err, ErrResize) {
				t.Fatal(err)
			}
			for _, want := range x.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, without %q", err, want)
				}
			}
		})
	}
	p := images(t, t.TempDir(), 2, false, func(rank int, r *Registry) []error {
		return []error{r.Register("mine", &rank), r.Register("x", &[]int64{1})}
	})
	s, err := OpenResized(p, 2, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, ptr := range map[string]any{"mine": new(int), "x": rows(0, 0)} {
		if err := s.Fill(name, ptr); !errors.Is(err, ErrResize) || !strings.Contains(err.Error(), "rank 0 of 3") {
			t.Error(name, err)
		}
	}
	if err := s.Fill("y", new(int)); !errors.Is(err, ErrMissing) {
		t.Error(err)
	}
	if err := s.Fill("mine", new(string)); !errors.Is(err, ErrType) {
		t.Error(err)
	}
}

// TestSameSize: as many ranks as there were take their own rows, of no other layout; a variable may have been another
// kind of its type.
func TestSameSize(t *testing.T) {
	x := &rowsOf[int64]{8, 2, 3, []int64{1, 2, 3, 4}}
	plain := []int64{5, 6}
	p := images(t, t.TempDir(), 1, false, func(rank int, r *Registry) []error {
		return []error{r.Register("x", x), r.Register("plain", &plain)}
	})
	s, err := Open(image.Path(p.good[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := &rowsOf[int64]{8, 2, 3, make([]int64, 4)}
	if err := s.Fill("x", got); err != nil || !slices.Equal(got.own, x.own) {
		t.Error(got.own, err)
	}
	if err := s.Fill("plain", &rowsOf[int64]{8, 1, 0, make([]int64, 2)}); err != nil {
		t.Error(err)
	}
	for _, bad := range []*rowsOf[int64]{{8, 2, 4, make([]int64, 4)}, {9, 2, 3, make([]int64, 4)}, {8, 1, 3, make([]int64, 4)}, {8, 2, 3, make([]int64, 2)}} {
		if err := s.Fill("x", bad); !errors.Is(err, ErrType) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestNoRows: what is not rows of fixed size is refused when it is registered, and what has become something else at the Point.
func TestNoRows(t *testing.T) {
	var r Registry
	defer r.Close()
	for _, x := range []any{
		&rowsOf[string]{1, 1, 0, []string{"a"}}, &rowsOf[int]{1, 0, 0, []int{1}}, &rowsOf[int]{1, 2, 0, []int{1}},
		&rowsOf[int]{1, 1, 1, []int{1}}, (*rowsOf[int])(nil), Replicated{5}, Replicated{},
	} {
		if err := r.Register("x", x); !errors.Is(err, ErrKind) {
			t.Errorf("%T: %v", x, err)
		}
	}
	x := &rowsOf[int]{1, 1, 0, []int{1}}
	if err := r.Register("x", x); err != nil {
		t.Fatal(err)
	}
	x.own = nil
	if _, err := r.Copy(); err == nil || !strings.Contains(err.Error(), "row") {
		t.Error(err)
	}
}

// TestFormat: what older libraries can read is written in their format.
func TestFormat(t *testing.T) {
	for want, ptr := range map[int]any{1: new(int), 2: Replicated{new(int)}} {
		p := images(t, t.TempDir(), 1, false, func(rank int, r *Registry) []error { return []error{r.Register("x", ptr)} })
		s, err := Open(image.Path(p.good[0]))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Meta().Format; got != want {
			t.Errorf("format %d, want %d", got, want)
		}
		s.Close()
	}
}

// Blocks of any grid are found in those of any other: each element comes from where it is, once.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Blocks have a column at least.
		cutCols := func(n int, what string) []int { return slices.Compact(cuts(t, n, 4, what)) }
		rows, cols := rapid.IntRange(1, 12).Draw(t, "rows"), rapid.IntRange(1, 12).Draw(t, "columns")
		grid := func(what string) (all []*window) {
			ys, xs := cuts(t, rows, 4, what+" rows"), cutCols(cols, what+" columns")
			for i := range len(ys) - 1 {
				for j := range len(xs) - 1 {
					all = append(all, &window{rows: rows, width: 1, first: ys[i], count: ys[i+1] - ys[i], cols: Columns{cols, xs[j], xs[j+1] - xs[j]}})
				}
			}
			return all
		}
		from := grid("from")
		for i, w := range from[1:] {
			if !w.follows(from[i]) {
				t.Fatalf("%v does not follow %v", w, from[i])
			}
		}
		for _, want := range grid("to") {
			got := map[[2]int]bool{}
			all, err := stretches(len(from), func(i int) (*window, error) { return from[i], nil }, want)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range all {
				w := from[s.image]
				for y := range s.rows {
					for x := range s.cols {
						if w.first+s.from+y != want.first+s.to+y || w.cols.First+s.left+x != want.cols.First+s.right+x || s.from+y >= w.count || s.left+x >= w.cols.Count {
							t.Fatalf("%+v of %v, wanted %v", s, w, want)
						}
						got[[2]int{s.to + y, s.right + x}] = true
					}
				}
			}
			if len(got) != want.count*want.cols.Count {
				t.Fatalf("%d elements of %v", len(got), want)
			}
		}
	})
}

// FuzzWindow reads windows that nobody ought to have written.
func FuzzWindow(f *testing.F) {
	f.Add((&window{rows: 9, width: 1, first: 3, count: 4, cols: Columns{7, 2, 5}}).encode(hostOrder))
	f.Add((&window{rows: 9, width: 2, first: 3, count: 4}).encode(hostOrder))
	f.Fuzz(func(t *testing.T, p []byte) {
		if w, err := decodeWindow(p, hostOrder); err == nil && (w.check() != nil || !bytes.Equal(w.encode(hostOrder), p)) {
			t.Errorf("%v", w)
		}
	})
}
