package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
)

// A faster level may have had many incremental snapshots since a slower one got its last. Then the
// slower one gets a snapshot of its own. Each of its images is merged from several, by the nodes
// that have these:
//
//	fast    11 full   13 on 11   15 on 13   17 on 15   19 on 17
//	slow    11, a copy                      16 on 11,              20 on 16,
//	                                        merged of 15 and 13    merged of 19 and 17
//
// So no page travels twice, and no full snapshot is taken for the slow level. Numbers are reserved
// with the snapshots that are merged, so a larger one is never of an older state. A snapshot that
// cannot be merged is copied.

// mergedLast is the newest merged snapshot of a level.
type mergedLast struct {
	state int // the snapshot whose state it has
	snap  *snapshot.Snapshot
	depth int // merged ones that it builds on
}

// mostMerged is how many of them build on one another. Then the merge goes down to the full
// snapshot of the faster level.
const mostMerged = 8

// merging is a snapshot for a level, to be made of several snapshots of one place.
type merging struct {
	by    whole.Merger
	chain []*snapshot.Snapshot // from the newest to one that is full
	from  snapshot.Place       // has all of it
	seq   int                  // the number that was reserved
	has   mergedLast           // what the level has of a snapshot of the chain; state 0: nothing
}

// mergingFor plans a merged snapshot for a level; nil: it is copied.
func (sv *Service) mergingFor(i int, s *snapshot.Snapshot) *merging {
	v, place := &sv.levels, sv.opt.Levels[i].Place
	by, _ := whole.Find(s.Schema.Backend)
	m := &merging{chain: sv.links(s), from: s.Copies()[0].Place()}
	m.by, _ = by.(whole.Merger)
	if c := sv.commitOf(s.Schema.Sequence); c != nil {
		m.seq = c.spare
	}
	if m.by == nil || m.seq == 0 || len(m.chain) == 0 {
		return nil
	}
	lacks := 0
	for ; lacks < len(m.chain) && m.has.state == 0; lacks++ {
		switch s := m.chain[lacks]; {
		case v.merged[i].state == s.Schema.Sequence:
			m.has = v.merged[i]
			m.has.depth++
		default:
			if _, there := s.Copy(place); there {
				m.has = mergedLast{state: s.Schema.Sequence, snap: s}
			}
		}
	}
	if m.has.state > 0 {
		lacks--
	}
	if lacks == 0 || lacks == 1 && m.has.depth == 0 {
		return nil // a copy does
	}
	if m.has.depth > mostMerged {
		m.has = mergedLast{}
	}
	return m
}

// links are a snapshot and those of the own chain that it builds on, down to a full one; none if
// one is missing.
func (sv *Service) links(s *snapshot.Snapshot) (all []*snapshot.Snapshot) {
	for {
		all = append(all, s)
		base := 0
		for _, im := range s.Schema.Images {
			base = max(base, im.Base)
		}
		if base == 0 {
			return all
		}
		c := sv.commitOf(base)
		if c == nil {
			return nil
		}
		s = c.snap
	}
}

// commitOf finds a snapshot of the own chain.
func (sv *Service) commitOf(seq int) *commit {
	i := slices.IndexFunc(sv.chain, func(c commit) bool { return c.snap.Schema.Sequence == seq })
	if i < 0 {
		return nil
	}
	return &sv.chain[i]
}

// addMerged adds a merged snapshot to the chain, before the one whose state it has.
func (sv *Service) addMerged(i int, m *merging, s *snapshot.Snapshot) {
	state := m.chain[0].Schema.Sequence
	sv.levels.merged[i] = mergedLast{state, s, m.has.depth}
	c := commit{snap: s}
	at := slices.IndexFunc(sv.chain, func(c commit) bool { return c.snap.Schema.Sequence >= state })
	if at < 0 {
		at = len(sv.chain)
	} else if o := &sv.chain[at]; o.snap.Schema.Sequence == state {
		c.note = o.note
	}
	sv.chain = slices.Insert(sv.chain, at, c)
	sv.keeps()
}

// merge makes it.
func (sv *Service) merge(ctx context.Context, m *merging, l *spec.Level, cost *copyCost) (*snapshot.Snapshot, error) {
	began := time.Now()
	defer func() { cost.took += time.Since(began) }()
	if err := sv.taken(); err != nil { // this head may have stood still
		return nil, err
	}
	hold, err := m.chain[0].Hold()
	if err != nil {
		return nil, err
	}
	defer hold.Release()
	if m.has.state > 0 && m.has.snap.Check() != nil { // the level has lost that snapshot
		m.has = mergedLast{}
	}
	p, err := sv.cat.BeginReserved(sv.id, m.seq, l.Place, sv.NodeNames())
	if err != nil {
		return nil, err
	}
	s := *m.chain[0].Schema
	s.Store, s.Folder, s.Set, s.More = "", "", "", nil
	if s.Images, err = sv.mergeImages(ctx, m, p, l, cost); err == nil && s.Program.Kept {
		err = errors.Join(p.KeepProgram(m.chain[0].ProgramPath(), s.Program.Digest), p.KeepLibraries(m.chain[0]))
	}
	if err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	snap, held, err := p.Commit(s)
	if err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	held.Release()
	return snap, nil
}

// mergeImages makes the nodes that have the images merge them.
func (sv *Service) mergeImages(ctx context.Context, m *merging, p *snapshot.Pending, l *spec.Level, cost *copyCost) ([]snapshot.Image, error) {
	images := slices.Clone(m.chain[0].Schema.Images)
	shares, err := m.shares(ctx, sv)
	if err != nil {
		return nil, err
	}
	_, set := p.Images()
	nodes := slices.Sorted(maps.Keys(shares))
	errs := make([]error, len(nodes))
	cost.bytes.Store(0)
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, at := range nodes {
		o := &wire.Flush{From: sv.storeOn(m.from, at), To: sv.storeOn(l.Place, at), ToSet: set, Rate: l.Rate,
			Merge: &wire.Merge{By: m.chain[0].Schema.Backend, Seq: m.seq}}
		if needsEnv(m.from) || needsEnv(l.Place) {
			o.Env = sv.opt.Env
		}
		for _, rank := range shares[at] {
			im := m.image(rank)
			images[rank].Base = im.Base
			o.Merge.Images = append(o.Merge.Images, im)
		}
		all.Go(func() {
			done, err := sv.flushOn(ctx, at, o, cost)
			mu.Lock()
			defer mu.Unlock()
			cost.cpu[at] += done.CPU
			if err == nil && len(done.Merged) != len(shares[at]) {
				err = fmt.Errorf("node %s has merged %d of %d images", at, len(done.Merged), len(shares[at]))
			}
			for k, d := range done.Merged {
				if err == nil {
					im := &images[shares[at][k]]
					im.Size, im.Digest, im.Raw, im.Node = d.Size, d.Digest, d.Raw, ""
					if onNodes(l.Place) {
						im.Node = at
					}
				}
			}
			errs[i] = err
		})
	}
	all.Wait()
	return images, flush.Few(errs)
}

// shares deals the ranks out to the nodes that have all their images.
func (m *merging) shares(ctx context.Context, sv *Service) (map[string][]int, error) {
	shares := map[string][]int{}
	where := make([]string, m.chain[0].Schema.NP)
	for k, s := range m.chain {
		c, there := s.Copy(m.from)
		if !there {
			return nil, fmt.Errorf("snapshot %d is not in %s", s.Schema.Sequence, m.from)
		}
		if !onNodes(m.from) {
			continue
		}
		has, err := sv.holders(ctx, s, c)
		if err != nil {
			return nil, err
		}
		for rank, im := range s.Schema.Images {
			switch at := has[im.File]; {
			case k > 0 && !m.needs(rank, k):
			case at == "" || k > 0 && at != where[rank]:
				return nil, fmt.Errorf("the images of rank %d are not all on one node", rank)
			default:
				where[rank] = at
			}
		}
	}
	for rank, at := range where {
		if at == "" {
			at = sv.OwnName()
		}
		shares[at] = append(shares[at], rank)
	}
	return shares, nil
}

// layers are the snapshots whose images of a rank are merged, by their place in the chain, and the
// number of the snapshot that the new one builds on.
func (m *merging) layers(rank int) (all []int, base int) {
	want := m.chain[0].Schema.Sequence
	for k, s := range m.chain {
		if s.Schema.Sequence != want {
			continue
		}
		if want == m.has.state {
			return all, m.has.snap.Schema.Sequence
		}
		all = append(all, k)
		if want = s.Schema.Images[rank].Base; want == 0 {
			break
		}
	}
	return all, 0
}

func (m *merging) needs(rank, k int) bool {
	all, _ := m.layers(rank)
	return slices.Contains(all, k)
}

// image is the order for a rank's image.
func (m *merging) image(rank int) wire.MergedImage {
	layers, base := m.layers(rank)
	newest := m.chain[0].Schema.Images[rank]
	im := wire.MergedImage{Name: newest.File, Base: base, Codec: newest.Codec}
	for _, k := range layers {
		s := m.chain[k]
		c, _ := s.Copy(m.from)
		set := c.Set
		if c.Store == "" {
			set = filepath.Base(filepath.Dir(s.Dir)) + "/" + filepath.Base(s.Dir)
		}
		im.From = append(im.From, flush.Layer{Set: set, Digest: s.Schema.Images[rank].Digest})
	}
	return im
}
