// Package erasure computes the parity of images, and lost images from the rest of a group. It works
// in pieces, so that neither needs whole images in memory. Images may have different lengths: a
// shorter one counts as if zeros followed.
//
// The code is Reed-Solomon over bytes (github.com/klauspost/reedsolomon). With one image the parity is the image
// itself, and with one parity shard it is the exclusive or.
package erasure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/reedsolomon"
)

// pieceSize is large enough for a disk and small enough for a cache.
const pieceSize = 1 << 20

// Code is a code over groups of so many images. It is safe for concurrent use.
type Code struct {
	data, parity int
	piece        int // bytes of each image that are worked on at once
	rs           reedsolomon.Encoder
	factor       [][]byte  // of each image in each parity shard
	bufs         sync.Pool // of [][]byte, a piece each
}

// New returns the code of data images and parity shards, together at most 256.
func New(data, parity int) (*Code, error) {
	if data < 1 || parity < 1 || data+parity > 256 {
		return nil, fmt.Errorf("code %d+%d: at least 1+1, together at most 256", data, parity)
	}
	rs, err := reedsolomon.New(data, parity, reedsolomon.WithAutoGoroutines(pieceSize))
	if err != nil {
		return nil, fmt.Errorf("code %d+%d: %w", data, parity, err)
	}
	c := &Code{data: data, parity: parity, piece: pieceSize, rs: rs}
	if err := c.factors(); err != nil {
		return nil, fmt.Errorf("code %d+%d: %w", data, parity, err)
	}
	c.bufs.New = func() any {
		bufs := make([][]byte, data+parity)
		return &bufs
	}
	return c, nil
}

// room makes a buffer n bytes long.
func room(p *[]byte, n int) []byte {
	if cap(*p) < n {
		*p = make([]byte, n)
	}
	*p = (*p)[:n]
	return *p
}

// Source is an image, or a parity shard.
type Source struct {
	io.ReaderAt
	Size int64
}

// Parity computes the parity shards of images. Each is as long as the longest image.
func (c *Code) Parity(ctx context.Context, images []Source, parity []io.WriterAt) error {
	if len(images) != c.data || len(parity) != c.parity {
		return fmt.Errorf("code %d+%d: %d images and %d parity shards", c.data, c.parity, len(images), len(parity))
	}
	bufs := c.bufs.Get().(*[][]byte)
	defer c.bufs.Put(bufs)
	return c.pieces(ctx, longest(images), func(off int64, n int) error {
		shards := make([][]byte, c.data+c.parity)
		for i := range shards {
			shards[i] = room(&(*bufs)[i], n)
		}
		if err := fillAll(images, shards, off); err != nil {
			return err
		}
		if err := c.rs.Encode(shards); err != nil {
			return err
		}
		for i, w := range parity {
			if _, err := w.WriteAt(shards[c.data+i], off); err != nil {
				return fmt.Errorf("parity shard %d of the group: %w", i, err)
			}
		}
		return nil
	})
}

// Want is a lost image that is to be computed.
type Want struct {
	Index int // in its group
	Size  int64
	To    io.WriterAt
}

// Memory is memory that a lost image is written to. It has the image's size.
type Memory []byte

// WriteAt implements io.WriterAt.
func (m Memory) WriteAt(p []byte, off int64) (int, error) { return copy(m[off:], p), nil }

// ErrTooFew is returned when too little is left of a group to compute its images.
var ErrTooFew = errors.New("too little is left of the group")

// Rebuild computes lost images from what is left of a group: images first, then parity shards, nil
// for those that are lost. It reads as many of them as the group has images.
func (c *Code) Rebuild(ctx context.Context, left []*Source, want []Want) error {
	if len(left) != c.data+c.parity {
		return fmt.Errorf("code %d+%d: %d pieces", c.data, c.parity, len(left))
	}
	required := make([]bool, c.data)
	end := int64(0)
	for _, w := range want {
		if w.Index < 0 || w.Index >= c.data || left[w.Index] != nil {
			return fmt.Errorf("image %d of the group is not lost, or there is none", w.Index)
		}
		required[w.Index] = true
		end = max(end, w.Size)
	}
	use, n := make([]bool, len(left)), 0
	for i, s := range left {
		if s != nil && n < c.data {
			use[i] = true
			n++
		}
	}
	if n < c.data {
		return fmt.Errorf("%w: %d pieces, and %d are needed", ErrTooFew, n, c.data)
	}
	bufs := c.bufs.Get().(*[][]byte)
	defer c.bufs.Put(bufs)
	return c.pieces(ctx, end, func(off int64, n int) error {
		shards, from := make([][]byte, len(left)), make([]Source, len(left))
		for i, s := range left {
			shards[i] = room(&(*bufs)[i], n)
			if use[i] {
				from[i] = *s
			} else {
				shards[i] = shards[i][:0] // for what is computed
			}
		}
		if err := fillAll(from, shards, off); err != nil {
			return err
		}
		if err := c.rs.ReconstructSome(shards, required); err != nil {
			return err
		}
		for _, w := range want {
			if part := shards[w.Index][:max(0, min(int64(n), w.Size-off))]; len(part) > 0 {
				if _, err := w.To.WriteAt(part, off); err != nil {
					return fmt.Errorf("image %d of the group: %w", w.Index, err)
				}
			}
		}
		return nil
	})
}

// pieces calls f for each piece of size bytes.
func (c *Code) pieces(ctx context.Context, size int64, f func(off int64, n int) error) error {
	for off := int64(0); off < size; off += int64(c.piece) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(off, int(min(int64(c.piece), size-off))); err != nil {
			return err
		}
	}
	return nil
}

// fillAll reads a piece of each source, all at once: they may be on other nodes.
func fillAll(from []Source, into [][]byte, off int64) error {
	errs := make([]error, len(from))
	var wg sync.WaitGroup
	for i := range from {
		wg.Go(func() {
			if err := from[i].fill(into[i], off); err != nil {
				errs[i] = fmt.Errorf("piece %d of the group: %w", i, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// fill reads a piece, zeros behind the end.
func (s *Source) fill(p []byte, off int64) error {
	n := int(max(0, min(int64(len(p)), s.Size-off)))
	clear(p[n:])
	if n == 0 {
		return nil
	}
	if got, err := s.ReadAt(p[:n], off); got < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return nil
}

func longest(images []Source) (size int64) {
	for _, s := range images {
		size = max(size, s.Size)
	}
	return size
}
