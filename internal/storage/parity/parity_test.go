package parity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/storage/parity"
	"github.com/gorun-mpi/gorun/internal/testing/storetest"
)

// group is images in one memory each, and their shards in one memory each.
type group struct {
	parity.Group
	t  *testing.T
	at []*mem.Memory
	as [][]byte // the images
}

func newGroup(t *testing.T, set string, images, shards int, seed byte) *group {
	g := &group{t: t, Group: parity.Group{Set: set, Shards: shards}}
	for range images + shards {
		m := mem.New(nil)
		t.Cleanup(func() { m.Close() })
		g.at = append(g.at, m)
	}
	g.write(seed)
	return g
}

func (g *group) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// write writes the images and the shards of the set.
func (g *group) write(seed byte) {
	g.Images, g.as = nil, nil
	var readers []io.ReaderAt
	for i, m := range g.at {
		g.must(m.Begin(g.t.Context(), g.Set))
		if len(g.Images)+g.Shards == len(g.at) {
			break
		}
		name := fmt.Sprintf("rank-%d.img", i)
		w, err := m.Create(g.t.Context(), g.Set, name, store.Options{})
		g.must(err)
		img, err := image.NewWriter(w, name, image.LocalMeta(), image.Options{})
		g.must(err)
		g.must(img.Section("x", "data", "", storetest.Data(1<<20+i*4097, seed+byte(i))))
		sum, err := img.Commit()
		g.must(err)
		p := g.read(m, g.Set, name)
		g.Images = append(g.Images, parity.Member{Piece: name, Size: int64(len(p)), Digest: sum.Digest})
		g.as = append(g.as, p)
		readers = append(readers, bytes.NewReader(p))
	}
	for k := range g.Shards {
		m := g.at[len(g.Images)+k]
		if k > 0 {
			g.must(m.Begin(g.t.Context(), g.Set))
		}
		w, err := m.Create(g.t.Context(), g.Set, g.Name(k), store.Options{Size: g.Size()})
		g.must(err)
		size, err := parity.Write(g.t.Context(), w, &g.Group, k, readers)
		g.must(err)
		g.must(w.Commit(size))
		if size > g.Size() {
			g.t.Errorf("a shard of %d bytes, %d were said", size, g.Size())
		}
	}
}

func (g *group) read(s interface {
	Open(ctx context.Context, set, piece string) (store.Reader, error)
}, set, piece string) []byte {
	r, err := s.Open(g.t.Context(), set, piece)
	g.must(err)
	defer r.Close()
	p := make([]byte, r.Size())
	_, err = r.ReadAt(p, 0)
	g.must(err)
	return p
}

// lost is what is left without some of the pieces.
func (g *group) lost(without ...int) *parity.Lost {
	gone := map[int]bool{}
	for _, i := range without {
		gone[i] = true
	}
	return &parity.Lost{List: func(ctx context.Context, set string) (all []parity.Held, err error) {
		for i, m := range g.at {
			if infos, err := m.List(ctx, set); err == nil && !gone[i] {
				for _, info := range infos {
					all = append(all, parity.Held{Piece: info.Name, Node: fmt.Sprint("n", i), At: func(context.Context) remote.Served { return m }})
				}
			}
		}
		return all, nil
	}}
}

// flip changes one byte of a piece.
func (g *group) flip(i int, piece string, off int64) {
	path, err := g.at[i].Path(g.Set, piece)
	g.must(err)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	g.must(err)
	defer f.Close()
	p := make([]byte, 1)
	_, err = f.ReadAt(p, off)
	g.must(err)
	p[0] ^= 1
	_, err = f.WriteAt(p, off)
	g.must(err)
}

// wants checks that an image is computed, or why not.
func (g *group) wants(l *parity.Lost, i int, why ...string) {
	g.t.Helper()
	_, digest, _, err := l.Check(g.t.Context(), g.Set, g.Images[i].Piece, true)
	if len(why) == 0 {
		g.must(err)
		if digest != g.Images[i].Digest || !bytes.Equal(g.read(l, g.Set, g.Images[i].Piece), g.as[i]) {
			g.t.Fatal("another image comes back")
		}
		return
	}
	_, other := l.Open(g.t.Context(), g.Set, g.Images[i].Piece)
	for _, err := range []error{err, other} {
		for _, w := range why {
			if err == nil || !strings.Contains(err.Error(), w) {
				g.t.Errorf("%v does not say %q", err, w)
			}
		}
	}
}

// TestDamage: a damaged shard or image is passed over while enough is left, and told when not.
func TestDamage(t *testing.T) {
	g := newGroup(t, "j/1", 3, 2, 1)
	g.wants(g.lost(0, 2), 0)
	g.wants(g.lost(0, 2), 2)
	g.flip(3, g.Name(0), 1<<20+5)
	g.wants(g.lost(0), 0)
	g.wants(g.lost(0, 1), 0, "2 of the 3", g.Name(0)+" on n3", "the block of the shard at 1048576")
	g.flip(3, g.Name(0), 1<<20+5)
	g.wants(g.lost(0, 1), 0)
	g.flip(1, g.Images[1].Piece, 1<<19)
	g.wants(g.lost(0), 0)
	g.wants(g.lost(0, 4), 0, "2 of the 3", "rank-1.img on n1")
	g.wants(g.lost(), 1) // it is there, and damaged
	if _, err := g.lost().Open(t.Context(), g.Set, "rank-9.img"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an image that nothing protects: %v", err)
	}
}

// TestMixedEpochs: what has the right name and is of another set is not used, be it a shard or an image.
func TestMixedEpochs(t *testing.T) {
	g := newGroup(t, "j/1", 2, 2, 1)
	old := g.Group
	g.Set = "j/2"
	g.write(50)
	g.put(2, g.Name(0), g.read(g.at[2], old.Set, old.Name(0)))
	g.wants(g.lost(0), 0)
	g.wants(g.lost(0, 3), 0, "it is shard 0 of a group of set j/1")
	g.put(1, g.Images[1].Piece, g.read(g.at[1], old.Set, old.Images[1].Piece))
	g.wants(g.lost(0), 0, "1 of the 2", "set j/1", "digest "+old.Images[1].Digest)
}

// put writes a piece of the set.
func (g *group) put(i int, piece string, p []byte) { storetest.Put(g.t, g.at[i], g.Set, piece, p) }

// TestRegrouped: shards of other groups of the same images lie beside each other.
func TestRegrouped(t *testing.T) {
	g := newGroup(t, "j/1", 3, 1, 1)
	two := parity.Group{Set: g.Set, Shards: 1, Images: g.Images[:2]}
	w, err := g.at[2].Create(t.Context(), g.Set, two.Name(0), store.Options{})
	g.must(err)
	size, err := parity.Write(t.Context(), w, &two, 0, []io.ReaderAt{bytes.NewReader(g.as[0]), bytes.NewReader(g.as[1])})
	g.must(err)
	g.must(w.Commit(size))
	g.wants(g.lost(0), 0)
	g.wants(g.lost(0, 3), 0)
	g.wants(g.lost(2, 1), 1, "needed are left")
}

// FuzzOpen: nothing that a shard says of itself is believed.
func FuzzOpen(f *testing.F) {
	whole := &buffer{}
	g := parity.Group{Set: "j/1", Shards: 1, Images: []parity.Member{{Piece: "a.img", Size: 3}, {Piece: "b.img", Size: 7}}}
	size, err := parity.Write(f.Context(), whole, &g, 0, []io.ReaderAt{strings.NewReader("abc"), strings.NewReader("defghij")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole.p[:size])
	f.Add(whole.p[1:size])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := parity.Open(bytes.NewReader(p), int64(len(p)))
		if err != nil {
			return
		}
		if err := s.Verify(t.Context()); err != nil && !errors.Is(err, image.ErrCorrupt) {
			t.Errorf("%v", err)
		}
		if _, err := json.Marshal(s.Group); err != nil || !parity.IsShard(s.Name(s.Number)) {
			t.Errorf("%v", err)
		}
	})
}

// buffer is a file in memory.
type buffer struct{ p []byte }

func (b *buffer) WriteAt(p []byte, off int64) (int, error) {
	if need := int(off) + len(p); need > len(b.p) {
		b.p = append(b.p, make([]byte, need-len(b.p))...)
	}
	return copy(b.p[off:], p), nil
}
