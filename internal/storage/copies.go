package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/s3"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
	"github.com/gorun-mpi/gorun/internal/storage/places"
	"github.com/gorun-mpi/gorun/internal/storage/storeurl"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// copyChain copies a snapshot, and what it builds on, to a level: the oldest first, so that the
// level's content is usable at any time. It returns the snapshots that have changed, and adds the
// cost.
func (sv *Service) copyChain(ctx context.Context, s *snapshot.Snapshot, l *spec.Level, cost *copyCost) (made []*snapshot.Snapshot, err error) {
	began := time.Now()
	defer func() { cost.took += time.Since(began) }()
	if s, err = sv.cat.Load(s.Dir); err != nil {
		return nil, err
	}
	chain, err := s.Chain()
	if err != nil {
		return nil, err
	}
	chain = slices.DeleteFunc(chain, func(s *snapshot.Snapshot) bool {
		_, there := s.Copy(l.Place)
		return there
	})
	cost.bytes.Store(0)
	for _, s := range slices.Backward(chain) {
		if err := sv.taken(); err != nil { // this head may have stood still
			return made, err
		}
		now, err := sv.copyOne(ctx, s, l, cost)
		if errors.Is(err, fs.ErrExist) {
			continue // it has been made already
		}
		if err != nil {
			return made, err
		}
		made = append(made, now)
	}
	return made, nil
}

// copyOne makes one copy.
func (sv *Service) copyOne(ctx context.Context, s *snapshot.Snapshot, l *spec.Level, cost *copyCost) (*snapshot.Snapshot, error) {
	c, err := sv.cat.Copy(s, l.Place, sv.NodeNames())
	if err != nil {
		return nil, err
	}
	defer func() { c.Abort(errors.Is(context.Cause(ctx), errWell)) }() // after another error a new try goes on with it
	s = c.Snapshot()
	st, set := c.Images()
	if err := sv.copyImages(ctx, &copying{s: s, to: st, set: set, level: l, cost: cost}, s.Schema.Images); err != nil {
		return nil, err
	}
	return c.Commit(sv.now())
}

// errWell says that a copy is not needed any more.
var errWell = errors.New("the job has ended well")

// copying is images of a snapshot that go to a level.
type copying struct {
	s     *snapshot.Snapshot
	to    store.Store
	set   string // there
	level *spec.Level
	where []string  // the nodes of the ranks, if the images of each go there
	cost  *copyCost // gets the cost
}

// copyImages copies images, each from the first other copy in which it is good.
func (sv *Service) copyImages(ctx context.Context, c *copying, images []snapshot.Image) error {
	left := images
	var errs []error
	for _, from := range c.s.Copies() {
		if from.Place() == c.level.Place || len(left) == 0 || ctx.Err() != nil {
			continue
		}
		var err error
		if left, err = sv.copyFrom(ctx, c, from, left); err != nil && from.Place() == memPlace && sv.memory != nil && ctx.Err() == nil {
			left, err = sv.copyFetched(ctx, c, from, left, err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("from %s: %w", from.Place(), err))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return cmp.Or(errors.Join(errs...), context.Cause(ctx), errNoOther)
}

var errNoOther = errors.New("there is no other copy")

// copyFrom copies images from one copy. Each node copies the images that it has, or will have; the
// head copies those that all nodes see. left are those that could not be copied.
func (sv *Service) copyFrom(ctx context.Context, c *copying, from snapshot.Copy, images []snapshot.Image) (left []snapshot.Image, err error) {
	shares, left, err := sv.shares(ctx, c, from, images)
	if err != nil && len(shares) == 0 {
		return left, err
	}
	if c.to.Shared() {
		if err := c.to.Begin(ctx, c.set); err != nil && !errors.Is(err, fs.ErrExist) {
			return images, err
		}
	}
	nodes := slices.Sorted(maps.Keys(shares))
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	var mu sync.Mutex // of cost
	for i, at := range nodes {
		o := sv.flushOrder(c, from, at, shares[at])
		all.Go(func() {
			var done wire.Flushed
			done, errs[i] = sv.flushOn(ctx, at, o, c.cost)
			mu.Lock()
			c.cost.cpu[at] += done.CPU
			mu.Unlock()
		})
	}
	all.Wait()
	for i, at := range nodes {
		if errs[i] != nil {
			left = append(left, shares[at]...)
		}
	}
	return left, flush.Few(append([]error{err}, errs...))
}

// copyFetched copies images that could not be copied from memory, because they are lost or damaged
// where they were written. The head fetches them, as a restart does, from other nodes, or computes
// them from shards. why tells why others could not be copied.
func (sv *Service) copyFetched(ctx context.Context, c *copying, from snapshot.Copy, images []snapshot.Image, why error) (left []snapshot.Image, err error) {
	m, own := sv.memory, sv.OwnName()
	has, err := sv.holders(ctx, c.s, from)
	if err != nil || own == "" {
		return images, errors.Join(why, err)
	}
	var got []snapshot.Image
	errs := []error{why}
	for _, im := range images {
		if at := has[im.File]; at != "" && m.damage(ctx, at, from.Set, im.File) == nil {
			left = append(left, im) // this image is not to blame
			continue
		}
		if _, err := m.store("").Fetch(ctx, from.Set, im.File, node.Image(im.Digest), nil); err != nil {
			left, errs = append(left, im), append(errs, err)
			continue
		}
		got = append(got, im)
	}
	if len(got) > 0 {
		if _, err := sv.flushOn(ctx, own, sv.flushOrder(c, from, own, got), c.cost); err != nil {
			left, errs = append(left, got...), append(errs, err)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	return left, flush.Few(errs)
}

// shares deals images out to the nodes that will copy them. left are those that no node has, as err
// says.
func (sv *Service) shares(ctx context.Context, c *copying, from snapshot.Copy, images []snapshot.Image) (shares map[string][]snapshot.Image, left []snapshot.Image, err error) {
	var has map[string]string
	if onNodes(from.Place()) {
		if has, err = sv.holders(ctx, c.s, from); err != nil {
			return nil, images, err
		}
	}
	shares = map[string][]snapshot.Image{}
	var errs []error
	for _, im := range images {
		at := sv.OwnName()
		if onNodes(c.level.Place) && c.where != nil {
			at = c.where[im.Rank]
		}
		if has != nil {
			at = has[im.File]
		}
		if has != nil && at == "" {
			left = append(left, im)
			errs = append(errs, fmt.Errorf("image of rank %d: node %s has written it, and no node that answers has it: %w", im.Rank, im.Node, fs.ErrNotExist))
			continue
		}
		shares[at] = append(shares[at], im)
	}
	return shares, left, flush.Few(errs)
}

// flushOrder makes a node copy images.
func (sv *Service) flushOrder(c *copying, from snapshot.Copy, at string, images []snapshot.Image) *wire.Flush {
	o := &wire.Flush{From: sv.storeOn(from.Place(), at), FromSet: from.Set, To: sv.storeOn(c.level.Place, at), ToSet: c.set, Rate: c.level.Rate}
	if from.Store == "" {
		o.FromSet = filepath.Base(filepath.Dir(c.s.Dir)) + "/" + filepath.Base(c.s.Dir)
	}
	if needsEnv(from.Place()) || needsEnv(c.level.Place) {
		o.Env = sv.opt.Env
	}
	for _, im := range images {
		o.Pieces = append(o.Pieces, flush.Piece{Name: im.File, Size: im.Size, Digest: im.Digest})
	}
	return o
}

// holders are the nodes that have the images of a copy: for each image the node that wrote it, if
// it still has it.
func (sv *Service) holders(ctx context.Context, s *snapshot.Snapshot, from snapshot.Copy) (map[string]string, error) {
	st, err := sv.openPlace(from.Place(), s.Nodes())
	if err != nil {
		return nil, err
	}
	all, err := st.List(ctx, from.Set)
	if err != nil {
		return nil, err
	}
	wrote := map[string]string{}
	for _, im := range s.Schema.Images {
		wrote[im.File] = im.Node
	}
	has := map[string]string{}
	for _, info := range all {
		if has[info.Name] == "" || info.Node == wrote[info.Name] {
			has[info.Name] = info.Node
		}
	}
	return has, nil
}

// storeOn is a place as a node opens it.
func (sv *Service) storeOn(p snapshot.Place, at string) wire.Store {
	if p == snapshot.Beside {
		return wire.Store{Kind: store.KindDir, Folder: rawstring.String(sv.cat.Root()), Node: at}
	}
	k := storeurl.Place(p)
	if inner := k.Inner(); inner.Kind == node.Kind {
		folder, _ := node.Expand(inner.Folder, at) // an error shows when it is opened
		k = k.WithFolder(folder)
	}
	return wire.Store{Kind: k.Kind, Folder: rawstring.String(k.Folder), Node: at}
}

// onNodes reports whether a place is spread over the nodes.
func onNodes(p snapshot.Place) bool {
	return p == memPlace || storeurl.Place(p).Inner().Kind == node.Kind
}

// openHere opens a store as the head's own node sees it.
func (sv *Service) openHere(w wire.Store, env []string) (store.Store, error) {
	if w.Kind == mem.Kind && sv.memory != nil {
		return sv.memory.own, nil
	}
	return places.Here(w, env)
}

// needsEnv reports whether a place needs credentials of the environment.
func needsEnv(p snapshot.Place) bool { return storeurl.Place(p).Inner().Kind == s3.Kind }

// flushOn makes a node copy. cost gets the progress.
func (sv *Service) flushOn(ctx context.Context, at string, o *wire.Flush, cost *copyCost) (wire.Flushed, error) {
	if at == sv.OwnName() || sv.nodes == nil {
		return places.Flush(ctx, sv.openHere, o, func(n int64) { cost.bytes.Add(n) })
	}
	var before int64
	return sv.nodes.Flush(ctx, at, o, func(done int64) {
		cost.bytes.Add(done - before)
		before = done
	})
}
