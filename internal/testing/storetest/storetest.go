// Package storetest is what all kinds of stores have in common, as tests. A kind passes Run.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Subject is an empty store, and how it is read: by the store itself, and by others, such as from another node.
type Subject struct {
	Store   store.Store
	Readers []store.Reading
}

// Run runs all tests on stores that open makes.
func Run(t *testing.T, open func(testing.TB) Subject) {
	t.Run("Model", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			s := open(t)
			m := &model{s: s, ctx: t, sets: map[string]map[string][]byte{}, open: map[string]*writing{}}
			rt.Repeat(map[string]func(*rapid.T){
				"begin": m.begin, "create": m.create, "write": m.write, "end": m.end, "commit": m.commit, "remove": m.remove, "read": m.read, "": m.check,
			})
			m.giveUp()
		})
	})
	t.Run("Names", func(t *testing.T) { names(t, open(t)) })
	t.Run("Order", func(t *testing.T) { order(t, open(t)) })
	t.Run("Replace", func(t *testing.T) { replace(t, open(t)) })
	t.Run("Ended", func(t *testing.T) { ended(t, open(t)) })
}

// Data is n bytes that differ by seed.
func Data(n int, seed byte) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7+i>>8) ^ seed
	}
	return p
}

// Put writes a piece whole.
func Put(t testing.TB, s store.Store, set, piece string, data []byte) {
	t.Helper()
	w, err := s.Create(t.Context(), set, piece, store.Options{NoDirect: true})
	if err == nil {
		if _, err = w.WriteAt(data, 0); err == nil {
			err = w.Commit(int64(len(data)))
		}
	}
	if err != nil {
		t.Fatalf("%s/%s: %v", set, piece, err)
	}
}

// Get reads a piece whole.
func Get(t testing.TB, r store.Reading, set, piece string) ([]byte, error) {
	t.Helper()
	p, err := r.Open(t.Context(), set, piece)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return io.ReadAll(io.NewSectionReader(p, 0, p.Size()))
}

// all are the ways to read a subject.
func (s *Subject) all() []store.Reading {
	return append([]store.Reading{s.Store}, s.Readers...)
}

// model is what a store ought to hold.
type model struct {
	s    Subject
	ctx  testing.TB
	sets map[string]map[string][]byte
	open map[string]*writing // set/piece -> what is being written
}

// writing is a piece that has not got its name yet.
type writing struct {
	store.Writer
	data []byte
	done []bool // which quarter is written
}

var (
	setNames   = rapid.SampledFrom([]string{"a/1", "a/2", "a/10", "b/x/1"})
	pieceNames = rapid.SampledFrom([]string{"rank-00000.img", "rank-00001.img", "p"})
)

func (m *model) begin(t *rapid.T) {
	set := setNames.Draw(t, "set")
	err := m.s.Store.Begin(m.ctx.Context(), set)
	if _, ok := m.sets[set]; ok {
		if !errors.Is(err, fs.ErrExist) {
			t.Fatalf("begun again: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	m.sets[set] = map[string][]byte{}
}

func (m *model) create(t *rapid.T) {
	set, piece := setNames.Draw(t, "set"), pieceNames.Draw(t, "piece")
	if m.open[set+"/"+piece] != nil {
		return
	}
	w, err := m.s.Store.Create(m.ctx.Context(), set, piece, store.Options{NoDirect: true})
	if _, ok := m.sets[set]; !ok {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("created in no set: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	n := rapid.SampledFrom([]int{0, 1, 4096, 70_000}).Draw(t, "size")
	m.open[set+"/"+piece] = &writing{w, Data(n, rapid.Byte().Draw(t, "seed")), make([]bool, 4)}
}

// one picks what is being written.
func (m *model) one(t *rapid.T) (name string, w *writing) {
	if len(m.open) == 0 {
		t.Skip("nothing is being written")
	}
	name = rapid.SampledFrom(slices.Sorted(maps.Keys(m.open))).Draw(t, "writing")
	return name, m.open[name]
}

func (m *model) write(t *rapid.T) {
	_, w := m.one(t)
	m.fill(t, w, rapid.IntRange(0, 3).Draw(t, "quarter"))
}

func (m *model) fill(t *rapid.T, w *writing, q int) {
	a, b := q*len(w.data)/4, (q+1)*len(w.data)/4
	if w.done[q] {
		return
	}
	if n, err := w.WriteAt(w.data[a:b], int64(a)); err != nil || n != b-a {
		t.Fatalf("%d of %d bytes, %v", n, b-a, err)
	}
	w.done[q] = true
}

func (m *model) end(t *rapid.T) {
	name, w := m.one(t)
	delete(m.open, name)
	if rapid.Bool().Draw(t, "give up") {
		if err := w.Abort(); err != nil {
			t.Fatal(err)
		}
		return
	}
	for q := range w.done {
		m.fill(t, w, q)
	}
	if err := w.Commit(int64(len(w.data))); err != nil {
		t.Fatal(err)
	}
	i := strings.LastIndexByte(name, '/')
	m.sets[name[:i]][name[i+1:]] = w.data
}

func (m *model) commit(t *rapid.T) {
	set := setNames.Draw(t, "set")
	if _, ok := m.sets[set]; ok {
		if err := m.s.Store.Commit(m.ctx.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *model) remove(t *rapid.T) {
	set := setNames.Draw(t, "set")
	for name, w := range m.open { // the caller that removes a set knows that nobody writes to it
		if strings.HasPrefix(name, set+"/") {
			w.Abort()
			delete(m.open, name)
		}
	}
	if err := m.s.Store.Remove(m.ctx.Context(), set); err != nil {
		t.Fatal(err)
	}
	delete(m.sets, set)
}

func (m *model) giveUp() {
	for _, w := range m.open {
		w.Abort()
	}
}

// read reads a range of a piece.
func (m *model) read(t *rapid.T) {
	set, piece := setNames.Draw(t, "set"), pieceNames.Draw(t, "piece")
	want, ok := m.sets[set][piece]
	for _, from := range m.s.all() {
		r, err := from.Open(m.ctx.Context(), set, piece)
		if !ok {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("opened what is not there: %v", err)
			}
			continue
		}
		if err != nil || r.Size() != int64(len(want)) {
			t.Fatal(err, len(want))
		}
		off := rapid.IntRange(0, len(want)).Draw(t, "offset")
		p := make([]byte, rapid.IntRange(0, len(want)-off+10).Draw(t, "length"))
		n, err := r.ReadAt(p, int64(off))
		if !bytes.Equal(p[:n], want[off:min(off+len(p), len(want))]) || n < len(p) && err != io.EOF || n == len(p) && err != nil && err != io.EOF {
			t.Fatalf("%d of %d bytes at %d of %d, %v", n, len(p), off, len(want), err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// check compares what the store says it holds, to one of those who read.
func (m *model) check(t *rapid.T) {
	all := m.s.all()
	from := all[rapid.IntRange(0, len(all)-1).Draw(t, "reader")]
	var want []string
	for set, pieces := range m.sets {
		if strings.HasPrefix(set, "a/") {
			want = append(want, set)
		}
		m.checkSet(t, from, set, pieces)
	}
	slices.Sort(want)
	sets, err := from.Sets(m.ctx.Context(), "a")
	if err != nil || !slices.Equal(sets, want) {
		t.Fatalf("sets %q, want %q, %v", sets, want, err)
	}
	if _, err := from.List(m.ctx.Context(), "c/1"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("listed a set that is not there: %v", err)
	}
}

func (m *model) checkSet(t *rapid.T, from store.Reading, set string, pieces map[string][]byte) {
	all, err := from.List(m.ctx.Context(), set)
	if err != nil || len(all) != len(pieces) {
		t.Fatalf("%s: %+v, %v, want %d pieces", set, all, err, len(pieces))
	}
	for _, info := range all {
		data, ok := pieces[info.Name]
		one, err := from.Stat(m.ctx.Context(), set, info.Name)
		if !ok || int64(len(data)) != info.Size || err != nil || one.Size != info.Size || one.Name != info.Name {
			t.Fatalf("%s: %+v, %+v, %v", set, info, one, err)
		}
	}
}

// names refuses whatever would lead out of a store.
func names(t *testing.T, s Subject) {
	ctx := t.Context()
	bad := []string{"", ".", "..", "/", "/etc", "a/../b", "a//b", "a/", "./a", "-rf", "a b", "a\x00", "a\n", "ä", strings.Repeat("a", 129), "a/b/c/d/e", ".hidden"}
	for _, set := range bad {
		_, e1 := s.Store.Create(ctx, set, "p", store.Options{})
		errs := []error{e1, s.Store.Begin(ctx, set), s.Store.Commit(ctx, set), s.Store.Remove(ctx, set)}
		for _, r := range s.all() {
			_, e1 := r.Open(ctx, set, "p")
			_, e2 := r.Stat(ctx, set, "p")
			_, e3 := r.List(ctx, set)
			_, e4 := r.Sets(ctx, set)
			errs = append(errs, e1, e2, e3, e4)
		}
		for i, err := range errs {
			if !errors.Is(err, store.ErrName) {
				t.Errorf("set %q, call %d: %v", set, i, err)
			}
		}
	}
	if err := s.Store.Begin(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	for _, piece := range append(bad, "a/b", "x.part", store.SchemaFile, store.LockFile) {
		_, err := s.Store.Create(ctx, "s", piece, store.Options{})
		errs := []error{err}
		for _, r := range s.all() {
			_, e1 := r.Open(ctx, "s", piece)
			_, e2 := r.Stat(ctx, "s", piece)
			errs = append(errs, e1, e2)
		}
		for i, err := range errs {
			if !errors.Is(err, store.ErrName) {
				t.Errorf("piece %q, call %d: %v", piece, i, err)
			}
		}
	}
}

// order writes the ranges of a piece from several goroutines, the last first, as an image's workers do, and
// more than the piece is to have.
func order(t *testing.T, s Subject) {
	if err := s.Store.Begin(t.Context(), "s/1"); err != nil {
		t.Fatal(err)
	}
	w, err := s.Store.Create(t.Context(), "s/1", "p", store.Options{NoDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	const blocks, size = 24, 64 << 10
	data := Data(blocks*size, 9)
	var wg sync.WaitGroup
	errs := make([]error, blocks)
	for i := range blocks {
		wg.Go(func() {
			at := (blocks - 1 - i) * size
			_, errs[i] = w.WriteAt(data[at:at+size], int64(at))
		})
	}
	wg.Wait()
	const cut = 100 // the last page is filled up before a piece is cut to its size
	if err := errors.Join(append(errs, w.Commit(blocks*size-cut))...); err != nil {
		t.Fatal(err)
	}
	for i, r := range s.all() {
		got, err := Get(t, r, "s/1", "p")
		if err != nil || !bytes.Equal(got, data[:blocks*size-cut]) {
			t.Errorf("reader %d: %d bytes, %v", i, len(got), err)
		}
	}
}

// replace writes a piece twice: until the second is whole, the first is there.
func replace(t *testing.T, s Subject) {
	if err := s.Store.Begin(t.Context(), "s/1"); err != nil {
		t.Fatal(err)
	}
	one, two := Data(1000, 1), Data(500, 2)
	Put(t, s.Store, "s/1", "p", one)
	w, err := s.Store.Create(t.Context(), "s/1", "p", store.Options{NoDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteAt(two, 0); err != nil {
		t.Fatal(err)
	}
	is := func(want []byte) {
		t.Helper()
		for i, r := range s.all() {
			if got, err := Get(t, r, "s/1", "p"); err != nil || !bytes.Equal(got, want) {
				t.Errorf("reader %d: %d bytes instead of %d, %v", i, len(got), len(want), err)
			}
		}
	}
	is(one)
	if err := w.Commit(int64(len(two))); err != nil {
		t.Fatal(err)
	}
	is(two)
}

// ended uses a writer that has ended.
func ended(t *testing.T, s Subject) {
	if err := s.Store.Begin(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		piece := fmt.Sprint("p", i)
		w, err := s.Store.Create(t.Context(), "s", piece, store.Options{NoDirect: true})
		if err != nil {
			t.Fatal(err)
		}
		end := w.Abort
		if i == 1 {
			end = func() error { return w.Commit(0) }
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(0); !errors.Is(err, store.ErrClosed) {
			t.Errorf("committed after its end: %v", err)
		}
		if err := w.Abort(); err != nil {
			t.Errorf("given up after its end: %v", err)
		}
		if _, err := w.WriteAt([]byte("x"), 0); err == nil {
			t.Error("written after its end")
		}
		_, err = s.Store.Stat(t.Context(), "s", piece)
		if i == 0 && !errors.Is(err, fs.ErrNotExist) || i == 1 && err != nil {
			t.Error(err)
		}
	}
}
