package erasure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// memory is a file in memory.
type memory struct{ p []byte }

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if need := int(off) + len(p); need > len(m.p) {
		m.p = append(m.p, make([]byte, need-len(m.p))...)
	}
	return copy(m.p[off:], p), nil
}

func source(p []byte) Source { return Source{bytes.NewReader(p), int64(len(p))} }

// group makes images of these sizes and their parity.
func group(t interface{ Fatal(...any) }, c *Code, rng *rand.Rand, sizes []int) (images [][]byte, parity []*memory) {
	var sources []Source
	for _, size := range sizes {
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		images = append(images, p)
		sources = append(sources, source(p))
	}
	var to []io.WriterAt
	for range c.parity {
		m := &memory{}
		parity = append(parity, m)
		to = append(to, m)
	}
	if err := c.Parity(context.Background(), sources, to); err != nil {
		t.Fatal(err)
	}
	return images, parity
}

// Whatever is lost, up to as many pieces as there are parity shards, comes back, from images of any lengths.
func TestRebuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := New(rapid.IntRange(1, 8).Draw(t, "data"), rapid.IntRange(1, 4).Draw(t, "parity"))
		if err != nil {
			t.Fatal(err)
		}
		c.piece = 4096
		var sizes []int
		for range c.data {
			sizes = append(sizes, rapid.SampledFrom([]int{0, 1, c.piece - 1, c.piece, c.piece + 1, 2*c.piece + 7}).Draw(t, "size"))
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		images, parity := group(t, c, rng, sizes)
		left := make([]*Source, c.data+c.parity)
		for i := range left {
			s := Source{}
			if i < c.data {
				s = source(images[i])
			} else {
				s = source(parity[i-c.data].p)
			}
			left[i] = &s
		}
		lose := rapid.IntRange(0, c.parity).Draw(t, "lost")
		var want []Want
		for _, i := range rng.Perm(len(left))[:lose] {
			left[i] = nil
			if i < c.data {
				want = append(want, Want{i, int64(sizes[i]), &memory{}})
			}
		}
		if err := c.Rebuild(context.Background(), left, want); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if got := w.To.(*memory).p; !bytes.Equal(got, images[w.Index]) {
				t.Fatalf("image %d of %d bytes comes back with %d, or differs", w.Index, sizes[w.Index], len(got))
			}
		}
	})
}

func TestRefused(t *testing.T) {
	for _, n := range [][2]int{{0, 1}, {1, 0}, {200, 57}} {
		if _, err := New(n[0], n[1]); err == nil {
			t.Errorf("code %d+%d", n[0], n[1])
		}
	}
	c, err := New(3, 2)
	if err != nil {
		t.Fatal(err)
	}
	images, parity := group(t, c, rand.New(rand.NewPCG(1, 1)), []int{10, 20, 30})
	first, shard := source(images[0]), source(parity[0].p)
	left := []*Source{&first, nil, nil, &shard, nil}
	want := []Want{{1, 20, &memory{}}}
	if err := c.Rebuild(context.Background(), left, want); !errors.Is(err, ErrTooFew) {
		t.Errorf("2 of 3 pieces: %v", err)
	}
	second := source(images[1])
	left[1] = &second
	if err := c.Rebuild(context.Background(), left, want); err == nil {
		t.Error("an image was rebuilt that is there")
	}
	want[0] = Want{2, 30, &memory{}}
	short := Source{bytes.NewReader(images[1][:5]), 20} // the source ends early
	left[1] = &short
	if err := c.Rebuild(context.Background(), left, want); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a short source: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Rebuild(ctx, left, want); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := c.Parity(context.Background(), []Source{first}, nil); err == nil {
		t.Error("a group of one for a code of three")
	}
}

func BenchmarkParity(b *testing.B) {
	for _, n := range [][2]int{{1, 1}, {2, 1}, {4, 2}, {8, 3}} {
		b.Run(fmt.Sprintf("%d+%d", n[0], n[1]), func(b *testing.B) {
			c, err := New(n[0], n[1])
			if err != nil {
				b.Fatal(err)
			}
			const size = 16 << 20
			var images []Source
			for range n[0] {
				images = append(images, source(make([]byte, size)))
			}
			var parity []io.WriterAt
			for range n[1] {
				parity = append(parity, &memory{make([]byte, size)})
			}
			b.SetBytes(int64(n[0]) * size)
			for b.Loop() {
				if err := c.Parity(context.Background(), images, parity); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Images that are added piece by piece, in any order, give the parity of all.
func TestAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data, parity := rapid.IntRange(1, 6).Draw(t, "data"), rapid.IntRange(1, 3).Draw(t, "parity")
		c, err := New(data, parity)
		if err != nil {
			t.Fatal(err)
		}
		c.piece = 32
		images, sources, size := make([][]byte, data), make([]Source, data), 0
		for i := range images {
			images[i] = rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "image")
			sources[i] = Source{bytes.NewReader(images[i]), int64(len(images[i]))}
			size = max(size, len(images[i]))
		}
		for p := range parity {
			want, got := &memory{}, make([]byte, size)
			to := make([]io.WriterAt, parity)
			for i := range to {
				to[i] = &memory{}
			}
			to[p] = want
			if err := c.Parity(t.Context(), sources, to); err != nil {
				t.Fatal(err)
			}
			for _, i := range rapid.Permutation(order(data)).Draw(t, "order") {
				half := len(images[i]) / 2
				c.Add(p, i, got[half:], images[i][half:])
				c.Add(p, i, got, images[i][:half])
			}
			shard := &memory{}
			if err := c.Shard(t.Context(), p, sources, func(p []byte) error {
				shard.p = append(shard.p, p...)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.p) || !bytes.Equal(shard.p, want.p) {
				t.Fatalf("parity %d of %d+%d differs", p, data, parity)
			}
		}
	})
}

func order(n int) (o []int) {
	for i := range n {
		o = append(o, i)
	}
	return o
}

// A shard is given up when an image cannot be read, when it cannot be written, and when nobody wants it any more.
func TestShardGivenUp(t *testing.T) {
	c, err := New(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	c.piece = 8
	images := []Source{source(make([]byte, 100)), {bytes.NewReader(make([]byte, 50)), 100}}
	nothing := func([]byte) error { return nil }
	if err := c.Shard(t.Context(), 0, images, nothing); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an image that is shorter than it should be: %v", err)
	}
	images[1] = source(make([]byte, 100))
	full := errors.New("full")
	if err := c.Shard(t.Context(), 0, images, func([]byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("it cannot be written: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := c.Shard(ctx, 0, images, func([]byte) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if err := c.Shard(t.Context(), 1, images, nothing); err == nil {
		t.Error("shard 1 of one")
	}
}
