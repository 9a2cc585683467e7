package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/remote"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/parity"
	"github.com/gorun-mpi/gorun/internal/storage/protect"
)

// Lost copies are made again while the job runs: after a loss the newest snapshot has fewer copies
// than the policy wants, and another loss could cost the snapshot. Until then the job is degraded,
// and reports it.

// tended is what is known of the copies of the newest snapshot in memory.
type tended struct {
	seq     int // of the snapshot; 0: there is none
	lacks   lacking
	told    string // the lack that was reported to the user
	weaker  bool   // the report was also that the policy cannot be kept
	looked  string // for which nodes and ranks it was looked at
	busy    bool
	cancel  context.CancelFunc
	working sync.WaitGroup
}

func (t *tended) stop() {
	if t.cancel != nil {
		t.cancel()
	}
	t.working.Wait()
}

// protected takes what a commit has found out about its copies
func (sv *Service) protected(copies *mirroring, c *commit, images []oob.ImageInfo) {
	if copies == nil {
		return
	}
	m := sv.memory
	m.announce(copies, images)
	m.tended.seq, m.tended.looked = c.snap.Schema.Sequence, sv.lines()
	sv.sayProtection(c.lacks, copies.less)
}

// sayProtection tells the user when protection is less than asked for, and when it is whole again. less is why the policy cannot be kept.
func (sv *Service) sayProtection(missing lacking, less error) {
	t := &sv.memory.tended
	t.lacks = missing
	lacks := missing.String()
	// Another snapshot number does not make it another lack. The loss of the policy itself does.
	weaker := less != nil
	switch {
	case lacks != "" && (t.told == "" || weaker && !t.weaker):
		sv.say("degraded: snapshot %d in memory has fewer copies than -ckpt-mirror %v asks for: %s", t.seq, sv.memory.policy, lacks)
	case lacks == "" && t.told != "":
		sv.say("snapshot %d in memory has all copies again", t.seq)
	}
	t.told, t.weaker = lacks, weaker
}

// lines names the nodes that can hold pieces, and the nodes of the ranks, as far as copies depend
// on them.
func (sv *Service) lines() string {
	p, err := sv.placement()
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, n := range p.Nodes {
		b.WriteString(n.Name + " ")
	}
	return fmt.Sprint(b.String(), p.Of)
}

// Tend checks the copies of the newest snapshot, if nodes or ranks have changed since the last
// check.
func (sv *Service) Tend() {
	m := sv.memory
	if m == nil || m.policy == nil || m.tended.busy || m.tended.seq == 0 {
		return
	}
	i := slices.IndexFunc(sv.chain, func(c commit) bool { return c.snap.Schema.Sequence == m.tended.seq })
	now := sv.lines()
	if i < 0 || now == "" || now == m.tended.looked {
		return
	}
	snap := sv.chain[i].snap
	hold, err := snap.Hold()
	if err != nil {
		return // a newer one has taken its place
	}
	c := sv.mirror(snap.Schema.Set)
	var ctx context.Context
	ctx, m.tended.cancel = context.WithCancel(context.Background())
	m.tended.busy = true
	sv.besides()
	m.tended.working.Go(func() {
		defer hold.Release()
		made, lacks := m.remake(ctx, c, snap)
		sv.post(func() {
			m.tended.busy = false
			sv.besides()
			if made > 0 {
				sv.verbose("snapshot %d in memory: %d copies were made again", snap.Schema.Sequence, made)
			}
			if m.tended.seq != snap.Schema.Sequence {
				return // another took its place
			}
			m.tended.looked = now
			sv.markWeak(snap, len(lacks) > 0)
			sv.sayProtection(lacks, c.less)
		})
	})
}

// memoryState is the level in memory, none if the job has none or names its levels: see levelStates.
func (sv *Service) memoryState(auto time.Duration) []control.Level {
	m := sv.memory
	if m == nil || sv.opt.Base != nil {
		return nil
	}
	l := control.Level{Name: mem.Kind, Where: "memory of the nodes, copies by policy " + sv.opt.CkptMirror, Every: sv.opt.CkptEvery, Err: m.tended.lacks.String(), Missing: len(m.tended.lacks)}
	sv.levels.base.fill(&l)
	if l.Every == 0 && sv.opt.CkptAuto {
		l.Every = auto
	}
	for _, c := range sv.chain {
		if InMemory(c.snap) {
			l.Last, l.At = c.snap.Schema.Sequence, c.snap.Schema.Created
		}
	}
	return []control.Level{l}
}

func (sv *Service) markWeak(s *snapshot.Snapshot, weak bool) {
	for i := range sv.chain {
		if sv.chain[i].snap.Dir == s.Dir { // it may have a copy by now
			sv.chain[i].weak = weak
		}
	}
}

// remakeWithin bounds the making of copies; a checkpoint that comes later makes its own.
const remakeWithin = 10 * time.Minute

// remake makes the copies of a snapshot that the nodes do not have. It is called beside the head's goroutine.
func (m *memory) remake(ctx context.Context, c *mirroring, s *snapshot.Snapshot) (made int, lacks lacking) {
	ctx, cancel := context.WithTimeout(ctx, remakeWithin)
	defer cancel()
	if c.broken != nil {
		return 0, lacking{c.broken.Error()}
	}
	have := map[string][]string{} // by piece: the nodes
	all, err := m.store("").List(ctx, c.set)
	if err != nil {
		return 0, lacking{err.Error()}
	}
	for _, info := range all {
		have[info.Name] = append(have[info.Name], info.Node)
	}
	r := &remaking{c, s, have, 0, c.short()}
	for i := range c.making.Groups {
		g := &c.making.Groups[i]
		r.images(ctx, g)
		r.shards(ctx, g)
	}
	return r.made, r.missing
}

// remaking makes the copies and shards of a snapshot that the nodes do not have.
type remaking struct {
	c       *mirroring
	s       *snapshot.Snapshot
	have    map[string][]string // by piece: the nodes
	made    int
	missing lacking
}

// images makes sure that the image of each rank of a group is on the rank's own node.
func (r *remaking) images(ctx context.Context, g *protect.Group) {
	for _, rank := range g.Ranks {
		im, to := &r.s.Schema.Images[rank], r.c.p.Nodes[r.c.p.Of[rank]].Name
		if slices.Contains(r.have[im.File], to) {
			continue
		}
		o := wire.Copy{Set: r.c.set, Piece: im.File, Digest: im.Digest}
		if err := r.c.m.copyTo(ctx, r.c.life, to, o, r.have[im.File]); err != nil {
			r.missing = append(r.missing, fmt.Sprintf("rank %d has no copy on node %s: %v", rank, to, err))
			continue
		}
		r.have[im.File] = append(r.have[im.File], to)
		r.made++
	}
}

// shards makes sure that each node has a good copy of its piece of a group.
func (r *remaking) shards(ctx context.Context, g *protect.Group) {
	var images []oob.ImageInfo
	var at [][]string
	of := parity.Group{Set: r.c.set, Shards: len(g.Shards)}
	for _, rank := range g.Ranks {
		im := &r.s.Schema.Images[rank]
		images = append(images, oob.ImageInfo{File: im.File, Size: im.Size, Digest: im.Digest})
		of.Images = append(of.Images, parity.Member{Piece: im.File, Size: im.Size, Digest: im.Digest})
		at = append(at, r.have[im.File])
	}
	for shard, n := range g.Shards {
		name := images[0].File
		if len(images) > 1 {
			name = of.Name(shard)
		}
		to := r.c.p.Nodes[n].Name
		if slices.Contains(r.have[name], to) {
			err := r.c.m.damage(ctx, to, r.c.set, name)
			if err == nil {
				continue
			}
			r.c.m.sv.post(func() { r.c.m.sv.say("%s on node %s is damaged and made again: %v", name, to, err) })
		}
		if err := r.c.protect(ctx, g, shard, images, at); err != nil {
			r.missing = append(r.missing, r.c.lack(g, shard, err))
			continue
		}
		r.made++
	}
}

// damage says what is wrong with a piece that a node has in memory. It is read through where it lies.
func (m *memory) damage(ctx context.Context, name, set, piece string) error {
	var at remote.Served = m.own
	if name != m.sv.OwnName() {
		peers := m.sv.nodes.Memories(mem.Kind)
		i := slices.IndexFunc(peers, func(p node.Peer) bool { return p.Node == name })
		if i < 0 {
			return nil // the node is lost, so there will be another look
		}
		at = peers[i].Files
	}
	_, _, _, err := at.Check(ctx, set, piece, true)
	return err
}

// pruneMemory removes the snapshots in memory that are not needed any more.
func (sv *Service) pruneMemory() {
	drop := sv.forget()
	if len(drop) == 0 {
		return
	}
	for i := range sv.chain {
		if slices.Contains(drop, sv.chain[i].snap) {
			sv.chain[i].release()
		}
	}
	work(sv, func() (map[int]bool, error) {
		gone := map[int]bool{} // that have no copy elsewhere
		var err error
		for _, s := range drop {
			removed, e := sv.cat.DropCopy(s, memPlace)
			now, lost := sv.cat.Load(s.Dir)
			gone[s.Schema.Sequence] = removed && lost != nil
			if removed && lost == nil {
				sv.post(func() { sv.renew([]*snapshot.Snapshot{now}) })
			}
			if e != nil {
				err = e
			}
		}
		return gone, err
	}, func(gone map[int]bool, err error) {
		if err != nil {
			sv.memory.left = true
			sv.verbose("%v", err)
		}
		maps.DeleteFunc(gone, func(_ int, removed bool) bool { return !removed })
		sv.chain = slices.DeleteFunc(sv.chain, func(c commit) bool { return gone[c.snap.Schema.Sequence] })
		sv.keeps()
	})
}
