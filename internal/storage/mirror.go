package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/storage/protect"
)

// mirroring makes the copies and shards that the policy wants for one snapshot: a copy as soon as
// its image is written, a shard as soon as all images of its group are. The snapshot is committed
// when each was made or has failed. Its images on the nodes decide whether it is whole: a copy that
// could not be made costs it protection, and nothing else.
type mirroring struct {
	m      *memory
	life   int
	set    string
	p      protect.Placement
	broken error // why the placement is not known
	less   error // why the policy cannot be kept, and which one replaces it

	ctx    context.Context
	cancel context.CancelFunc
	under  sync.WaitGroup

	mu     sync.Mutex
	making *protect.Making
	begun  map[int]oob.ImageInfo  // by rank, when its image is written
	why    map[protect.Lack]error // why a copy, or a shard, was not made
}

// mirror begins the copies of a snapshot.
func (sv *Service) mirror(set string) *mirroring {
	m := sv.memory
	c := &mirroring{m: m, life: sv.lineup.Life, set: set, begun: map[int]oob.ImageInfo{}, why: map[protect.Lack]error{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	var groups []protect.Group
	if c.p, c.broken = sv.placement(); c.broken == nil && m.policy != nil {
		groups, c.less = protect.Fitting(m.policy, c.p)
	}
	c.making = protect.NewMaking(sv.opt.NP, groups)
	return c
}

// start begins to copy the image of a rank, or, when it is the last of its group, to compute the group's shards.
func (c *mirroring) start(rank int, info oob.ImageInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, begun := c.begun[rank]; begun || c.ctx.Err() != nil {
		return
	}
	c.begun[rank] = info
	group, ready := c.making.Wrote(rank)
	if !ready {
		return
	}
	g := &c.making.Groups[group]
	var images []oob.ImageInfo
	for _, r := range g.Ranks {
		images = append(images, c.begun[r])
	}
	for shard := range g.Shards {
		c.under.Go(func() { c.make(group, shard, images) })
	}
}

// make makes a node produce its piece of a group, and records the result.
func (c *mirroring) make(group, shard int, images []oob.ImageInfo) {
	g := &c.making.Groups[group]
	var at [][]string
	for _, rank := range g.Ranks {
		at = append(at, []string{c.p.Nodes[c.p.Of[rank]].Name})
	}
	err := c.protect(c.ctx, g, shard, images, at)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.why[protect.Lack{Group: group, Shard: shard}] = err
	} else {
		c.making.Made(group, shard)
	}
}

// lack records that a group lacks a piece.
func (c *mirroring) lack(g *protect.Group, shard int, err error) string {
	to := c.p.Nodes[g.Shards[shard]].Name
	if len(g.Ranks) == 1 {
		return fmt.Sprintf("rank %d has no copy on node %s: %v", g.Ranks[0], to, err)
	}
	return fmt.Sprintf("ranks %v have no shard on node %s: %v", g.Ranks, to, err)
}

// protect makes a node copy the image of a group of one, or compute a shard of a group of several.
// at are the nodes that have each image.
func (c *mirroring) protect(ctx context.Context, g *protect.Group, shard int, images []oob.ImageInfo, at [][]string) error {
	to := c.p.Nodes[g.Shards[shard]].Name
	for i := range at {
		if len(at[i]) == 0 {
			return fmt.Errorf("no node has the image of rank %d", g.Ranks[i])
		}
		var stop func()
		ctx, stop = c.m.whileUp(ctx, at[i][0])
		defer stop()
	}
	if len(g.Ranks) == 1 {
		return c.m.copyTo(ctx, c.life, to, wire.Copy{Set: c.set, Piece: images[0].File, Digest: images[0].Digest}, at[0])
	}
	o := wire.Copy{Set: c.set, Parity: &wire.Parity{Shards: len(g.Shards), Shard: shard}}
	for i, im := range images {
		from, err := c.m.sources(ctx, c.life, to, at[i])
		if err != nil {
			return err
		}
		o.Parity.Images = append(o.Parity.Images, wire.OneOfMany{Piece: im.File, Size: im.Size, Digest: im.Digest, From: from})
	}
	return c.m.order(ctx, to, &o, slices.Concat(at...))
}

// whileUp is a context that ends when a node is lost.
func (m *memory) whileUp(ctx context.Context, name string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if f := m.sv.nodes; f != nil {
		go func() {
			select {
			case <-f.Lost(name):
				cancel(fmt.Errorf("node %s is lost", name))
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// lacking lists the missing copies and shards, and why they are missing.
type lacking []string

// String names some.
func (l lacking) String() string {
	if n := len(l); n > 3 {
		return strings.Join(l[:3], "; ") + fmt.Sprintf("; and %d more", n-3)
	}
	return strings.Join(l, "; ")
}

// settle waits for the copies of all images. weak says where the snapshot has fewer than the policy
// wants, and is empty if it has all. The error names an image that no node has.
func (c *mirroring) settle(images []oob.ImageInfo) (weak lacking, err error) {
	for rank, info := range images {
		c.start(rank, info)
	}
	c.under.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return lacking{c.broken.Error()}, nil
	}
	weak = c.short()
	up := c.m.up()
	down := func(n int) bool { return !slices.Contains(up, c.p.Nodes[n].Name) }
	if lost := c.making.Lost(c.p, down); len(lost) > 0 {
		return nil, fmt.Errorf("the image of rank %d was in the memory of node %s, which is lost", lost[0], c.p.Nodes[c.p.Of[lost[0]]].Name)
	}
	for _, l := range c.making.Lacks(down) {
		why := c.why[l]
		if l.Gone {
			why = errors.New("it is lost")
		}
		weak = append(weak, c.lack(&c.making.Groups[l.Group], l.Shard, why))
	}
	return weak, nil
}

// short says that the policy cannot be kept on the present nodes.
func (c *mirroring) short() lacking {
	if c.less == nil {
		return nil
	}
	return lacking{c.less.Error()}
}

// giveUp ends the copying, and returns when nothing is under way.
func (c *mirroring) giveUp() {
	if c != nil {
		c.cancel()
		c.mu.Lock() // no call is about to start one
		c.mu.Unlock()
		c.under.Wait()
	}
}

// up are the names of nodes whose memory can be reached.
func (m *memory) up() []string {
	if m.sv.nodes == nil {
		return []string{m.sv.OwnName()}
	}
	return m.sv.nodes.Usable()
}

// announce tells the user, once, how much memory the level takes on which nodes.
func (m *memory) announce(c *mirroring, images []oob.ImageInfo) {
	if m.told || c.broken != nil || c.less != nil {
		return
	}
	m.told = true
	size := func(rank int) int64 { return images[rank].Size }
	load := protect.Load(c.p, c.making.Groups, size)
	for rank, at := range c.p.Of {
		load[at] += size(rank)
	}
	turns, what := int64(2), "two snapshots in turn"
	if len(m.sv.opt.Levels) > 0 {
		turns, what = 3, what+" and one that is being copied to another level"
	}
	var words []string
	for i, n := range load {
		if n > 0 {
			words = append(words, fmt.Sprintf("%s %d MB", c.p.Nodes[i].Name, (turns*n+1<<20-1)>>20))
		}
	}
	m.sv.say("checkpoints in memory take, %s: %s", what, strings.Join(words, ", "))
}

// forget lists the snapshots in memory that are not needed any more.
func (sv *Service) forget() (drop []*snapshot.Snapshot) {
	var all []*snapshot.Snapshot
	var weak []bool
	for _, c := range sv.chain {
		if InMemory(c.snap) {
			all, weak = append(all, c.snap), append(weak, c.weak)
		}
	}
	for _, i := range protect.Superseded(weak) {
		drop = append(drop, all[i])
	}
	return drop
}
