package parity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/storage/erasure"
)

// Held is a piece of a set on a node.
type Held struct {
	Piece string
	Node  string
	At    func(ctx context.Context) remote.Served // opens the node's store; called when it is needed
}

// Lost offers images of which no node has a good copy, as long as enough is left of their groups.
// It is safe for concurrent use.
type Lost struct {
	// List lists what the nodes that answer have of a set. A piece that lies on several is listed for each.
	List func(ctx context.Context, set string) ([]Held, error)
}

// Open opens a lost image. The pieces from which it is computed have been checked. fs.ErrNotExist:
// no shard protects it.
func (l *Lost) Open(ctx context.Context, set, piece string) (store.Reader, error) {
	return l.open(ctx, set, piece, true)
}

// Stat tells the size of a lost image.
func (l *Lost) Stat(ctx context.Context, set, piece string) (store.Info, error) {
	r, err := l.open(ctx, set, piece, false)
	if err != nil {
		return store.Info{}, err
	}
	defer r.Close()
	return store.Info{Name: piece, Size: r.Size()}, nil
}

// Check checks a lost image. With whole, the pieces from which it is computed are checked where
// they lie: no byte of them travels.
func (l *Lost) Check(ctx context.Context, set, piece string, whole bool) (size int64, digest string, m image.Meta, err error) {
	r, err := l.open(ctx, set, piece, whole)
	if err != nil {
		return 0, "", m, err
	}
	defer r.Close()
	img, err := image.NewReader(r, r.Size(), piece)
	if err != nil {
		return 0, "", m, err
	}
	defer img.Close()
	if want := r.group.Images[r.index].Digest; img.Digest() != want {
		return 0, "", m, fmt.Errorf("%w: digest %s instead of %s", image.ErrCorrupt, img.Digest(), want)
	}
	return img.Size(), img.Digest(), img.Meta(), nil
}

func (l *Lost) open(ctx context.Context, set, piece string, whole bool) (*computed, error) {
	if err := errors.Join(store.CheckSet(set), store.CheckPiece(piece)); err != nil {
		return nil, err
	}
	all, err := l.List(ctx, set)
	if err != nil {
		return nil, err
	}
	groups, err := groupsOf(ctx, all, set, piece)
	for _, g := range groups {
		r, e := g.open(ctx, all, piece, whole)
		if e == nil {
			return r, nil
		}
		err = errors.Join(err, e)
	}
	if err == nil {
		err = fs.ErrNotExist
	}
	return nil, fmt.Errorf("%s/%s: no parity of it: %w", set, piece, err)
}

// atOnce bounds how many shards are looked at at once.
const atOnce = 16

// groupsOf finds the groups of a set that protect a piece. The first readable shard of a group
// names its images. If no group was found, the error says what could not be read.
func groupsOf(ctx context.Context, all []Held, set, piece string) (found []*Group, err error) {
	shards := map[string][]Held{} // by group
	for _, h := range all {
		if IsShard(h.Piece) {
			shards[groupOf(h.Piece)] = append(shards[groupOf(h.Piece)], h)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	for _, of := range shards {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			g, e := readGroup(ctx, of, set)
			mu.Lock()
			defer mu.Unlock()
			if err = errors.Join(err, e); g != nil && g.index(piece) >= 0 {
				found = append(found, g)
			}
		})
	}
	wg.Wait()
	if len(found) > 0 {
		err = nil
	}
	return found, err
}

// readGroup reads the group from its first good shard.
func readGroup(ctx context.Context, shards []Held, set string) (*Group, error) {
	var errs []error
	for _, h := range shards {
		s, r, err := h.shard(ctx, set)
		if err == nil {
			r.Close()
			return &s.Group, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// shard opens a shard, which must be of the set.
func (h *Held) shard(ctx context.Context, set string) (*Shard, store.Reader, error) {
	r, err := h.open(ctx, set)
	if err != nil {
		return nil, nil, err
	}
	s, err := openAs(r, set, h.Piece)
	if err != nil {
		r.Close()
		return nil, nil, h.named(err)
	}
	return s, r, nil
}

func (h *Held) open(ctx context.Context, set string) (store.Reader, error) {
	at := h.At(ctx)
	if at == nil {
		return nil, h.named(store.ErrUnreachable)
	}
	r, err := at.Open(ctx, set, h.Piece)
	if err != nil {
		return nil, h.named(err)
	}
	return r, nil
}

func (h *Held) named(err error) error { return fmt.Errorf("%s on %s: %w", h.Piece, h.Node, err) }

// index is the index of an image in its group, -1 if it is in another.
func (g *Group) index(piece string) int {
	for i, m := range g.Images {
		if m.Piece == piece {
			return i
		}
	}
	return -1
}

// open opens an image of a group, to be computed from as many other pieces as the group has images.
func (g *Group) open(ctx context.Context, all []Held, piece string, whole bool) (*computed, error) {
	code, err := erasure.New(len(g.Images), g.Shards)
	if err != nil {
		return nil, err
	}
	c := &computed{group: g, index: g.index(piece), code: code, left: make([]*erasure.Source, len(g.Images)+g.Shards)}
	errs := make([]error, len(c.left))
	var wg sync.WaitGroup
	for i := range c.left {
		if i != c.index {
			wg.Go(func() { errs[i] = c.take(ctx, i, all, whole) })
		}
	}
	wg.Wait()
	n := 0
	for _, s := range c.left {
		if s != nil {
			n++
		}
	}
	if n < len(g.Images) {
		c.Close()
		return nil, fmt.Errorf("%d of the %d pieces that are needed are left of its group: %w", n, len(g.Images), errors.Join(errs...))
	}
	return c, nil
}

// take opens a piece of the group on the first node that has a good copy.
func (c *computed) take(ctx context.Context, i int, all []Held, whole bool) error {
	var errs []error
	name := c.name(i)
	for _, h := range all {
		if h.Piece != name {
			continue
		}
		err := c.check(ctx, i, &h, whole)
		if err == nil {
			var r store.Reader
			if r, err = h.open(ctx, c.group.Set); err == nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.left[i] = &erasure.Source{ReaderAt: r, Size: c.length(i)}
				c.open = append(c.open, r)
				return nil
			}
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return fmt.Errorf("%s: on no node that answers", name)
	}
	return errors.Join(errs...)
}

// name is that of a piece of the group: images first.
func (c *computed) name(i int) string {
	if n := len(c.group.Images); i >= n {
		return c.group.Name(i - n)
	}
	return c.group.Images[i].Piece
}

// length is how long a piece is to the code.
func (c *computed) length(i int) int64 {
	if i >= len(c.group.Images) {
		return c.group.longest()
	}
	return c.group.Images[i].Size
}

// check checks a piece where it lies: an image must be the one that the group names, a shard must
// belong to this very group.
func (c *computed) check(ctx context.Context, i int, h *Held, whole bool) error {
	at := h.At(ctx)
	if at == nil {
		return h.named(store.ErrUnreachable)
	}
	size, digest, _, err := at.Check(ctx, c.group.Set, h.Piece, whole)
	if err != nil {
		return h.named(err)
	}
	if i < len(c.group.Images) {
		if m := c.group.Images[i]; size != m.Size || digest != m.Digest {
			return h.named(fmt.Errorf("%w: digest %s instead of %s", image.ErrCorrupt, digest, m.Digest))
		}
	}
	return nil
}

// computed is a lost image.
type computed struct {
	group *Group
	index int
	code  *erasure.Code
	left  []*erasure.Source

	mu   sync.Mutex
	open []store.Reader
}

// Size is that of the image.
func (c *computed) Size() int64 { return c.group.Images[c.index].Size }

// ReadAt computes a stretch of the image.
func (c *computed) ReadAt(p []byte, off int64) (int, error) {
	n := int(max(0, min(int64(len(p)), c.Size()-off)))
	if off < 0 || n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	left := make([]*erasure.Source, len(c.left))
	for i, s := range c.left {
		if s != nil {
			size := max(0, s.Size-off)
			left[i] = &erasure.Source{ReaderAt: io.NewSectionReader(s, off, size), Size: size}
		}
	}
	if err := c.code.Rebuild(context.Background(), left, []erasure.Want{{Index: c.index, Size: int64(n), To: erasure.Memory(p)}}); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Close closes the pieces from which it is computed.
func (c *computed) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, r := range c.open {
		errs = append(errs, r.Close())
	}
	c.open = nil
	return errors.Join(errs...)
}
