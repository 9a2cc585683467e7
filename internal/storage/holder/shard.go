package holder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/parity"
)

// shard obeys an order to compute a shard.
func (c *Copier) shard(ctx context.Context, o *wire.Copy, near []node.Peer) error {
	g := GroupOf(o.Set, o.Parity)
	if size, _, err := parity.Check(ctx, c.Memory, o.Set, g.Name(o.Parity.Shard), true); err == nil && size > 0 {
		return nil // the shard is here, and good
	}
	images := make([]*from, len(g.Images))
	for i, m := range o.Parity.Images {
		images[i] = &from{sources: sources{have: m.From}, set: o.Set, want: g.Images[i]}
		images[i].near = slices.DeleteFunc(slices.Clone(near), func(p node.Peer) bool { return !names(m.From, p.Node) })
		defer images[i].close()
	}
	if err := all(images, func(f *from) error { return f.open(ctx) }); err != nil {
		return err
	}
	w, err := c.Memory.Create(ctx, o.Set, g.Name(o.Parity.Shard), store.Options{Size: g.Size()})
	if err != nil {
		return err
	}
	defer w.Abort()
	var readers []io.ReaderAt
	for _, f := range images {
		readers = append(readers, &pacedReader{f.r, func(n int) error { return c.pace.Wait(ctx, int64(n), o.Rate) }})
	}
	size, err := parity.Write(ctx, w, &g, o.Parity.Shard, readers)
	if err == nil {
		err = all(images, func(f *from) error { return f.check(ctx) })
	}
	if err != nil {
		return err
	}
	return w.Commit(size)
}

// pacedReader waits before each read.
type pacedReader struct {
	io.ReaderAt
	wait func(n int) error
}

func (r *pacedReader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.wait(len(p)); err != nil {
		return 0, err
	}
	return r.ReaderAt.ReadAt(p, off)
}

// GroupOf is the group that an order tells of.
func GroupOf(set string, p *wire.Parity) parity.Group {
	g := parity.Group{Set: set, Shards: p.Shards}
	for _, m := range p.Images {
		g.Images = append(g.Images, parity.Member{Piece: m.Piece, Size: m.Size, Digest: m.Digest})
	}
	return g
}

func names(all []wire.Source, name string) bool {
	return slices.ContainsFunc(all, func(s wire.Source) bool { return s.Node == name })
}

// all handles all images at once, as they are on other nodes.
func all(images []*from, f func(*from) error) error {
	errs := make([]error, len(images))
	var wg sync.WaitGroup
	for i, m := range images {
		wg.Go(func() {
			if err := f(m); err != nil {
				errs[i] = fmt.Errorf("%s: %w", m.want.Piece, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// from is an image from which a shard is computed.
type from struct {
	sources
	set  string
	want parity.Member
	at   node.Peer
	r    store.Reader
}

// open opens the image on the first node that has it.
func (f *from) open(ctx context.Context) error {
	have, err := f.Find(ctx, f.set, f.want.Piece)
	errs := []error{err}
	for _, p := range have {
		if f.r, err = p.Files.Open(ctx, f.set, f.want.Piece); err == nil {
			f.at = p
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.Node, err))
	}
	return errors.Join(errs...)
}

// check checks the images on their own nodes: a shard of damaged images protects none.
func (f *from) check(ctx context.Context) error {
	size, digest, _, err := f.at.Files.Check(ctx, f.set, f.want.Piece, true)
	if err == nil && (size != f.want.Size || digest != f.want.Digest) {
		err = fmt.Errorf("%w: digest %s instead of %s", image.ErrCorrupt, digest, f.want.Digest)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.at.Node, err)
	}
	return nil
}

func (f *from) close() {
	if f.r != nil {
		f.r.Close()
	}
	f.sources.close()
}
