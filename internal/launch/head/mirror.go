package head

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/internal/protect"
)

// mirroring makes the copies of one snapshot that the policy wants, each as soon as its image is written. The snapshot is
// committed when all are there, or cannot be. What is whole is decided by what the nodes have, not by who has announced
// it: a copy that could not be made takes nothing from the snapshot but protection.
type mirroring struct {
	m      *memory
	life   int
	set    string
	p      protect.Placement
	groups []protect.Group
	broken error // why there are no groups

	ctx    context.Context
	cancel context.CancelFunc
	under  sync.WaitGroup

	mu    sync.Mutex
	begun map[int]bool
	lacks map[int][]string // by rank: why a copy of its image is not there
	made  map[int]int      // by rank: copies
}

// mirror begins the copies of a snapshot.
func (inc *incarnation) mirror(set string) *mirroring {
	m := inc.h.memory
	c := &mirroring{m: m, life: inc.n, set: set, begun: map[int]bool{}, lacks: map[int][]string{}, made: map[int]int{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.p, c.broken = inc.placement(); c.broken == nil && m.policy != nil {
		c.groups, c.broken = m.policy.Groups(c.p)
	}
	return c
}

// wrote is told what a rank says of its image: its copies can be made.
func (inc *incarnation) wrote(m *oob.Msg) {
	for _, p := range inc.store.pending {
		var info oob.ImageInfo
		if p.copies != nil && json.Unmarshal(m.Data, &info) == nil {
			p.copies.start(int(m.From), info)
		}
	}
}

// start begins to copy the image of a rank.
func (c *mirroring) start(rank int, info oob.ImageInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun[rank] || c.ctx.Err() != nil {
		return
	}
	c.begun[rank] = true
	for _, g := range c.groups {
		if len(g.Ranks) != 1 || g.Ranks[0] != rank {
			continue
		}
		for _, to := range g.Shards {
			c.under.Go(func() { c.copy(rank, info, c.p.Nodes[to].Name) })
		}
	}
}

func (c *mirroring) copy(rank int, info oob.ImageInfo, to string) {
	from := c.p.Nodes[c.p.Of[rank]].Name
	ctx, stop := c.m.whileUp(c.ctx, from)
	defer stop()
	err := c.m.copyTo(ctx, c.life, to, wire.Copy{Set: c.set, Piece: info.File, Digest: info.Digest}, []string{from})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.lacks[rank] = append(c.lacks[rank], fmt.Sprintf("rank %d has no copy on node %s: %v", rank, to, err))
	} else {
		c.made[rank]++
	}
}

// whileUp is a context that ends when a node is lost.
func (m *memory) whileUp(ctx context.Context, name string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if f := m.h.fleet; f != nil {
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

// settle waits for the copies of all images. weak says where the snapshot has fewer than the policy wants, "" if it has all.
// The error says which image nobody has.
func (c *mirroring) settle(images []oob.ImageInfo) (weak string, err error) {
	for rank, info := range images {
		c.start(rank, info)
	}
	c.under.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken.Error(), nil
	}
	up := c.m.up()
	var lacks []string
	for rank := range images {
		if at := c.p.Nodes[c.p.Of[rank]].Name; !slices.Contains(up, at) && c.made[rank] == 0 {
			return "", fmt.Errorf("the image of rank %d was in the memory of node %s, which is lost", rank, at)
		}
		lacks = append(lacks, c.lacks[rank]...)
	}
	if n := len(lacks); n > 3 {
		lacks = append(lacks[:3], fmt.Sprintf("and %d more", n-3))
	}
	return strings.Join(lacks, "; "), nil
}

// giveUp ends the copying, and returns when nothing is under way.
func (c *mirroring) giveUp() {
	if c != nil {
		c.cancel()
		c.mu.Lock() // nobody is about to start one
		c.mu.Unlock()
		c.under.Wait()
	}
}

// up are the names of nodes whose memory can be reached.
func (m *memory) up() []string {
	if m.h.fleet == nil {
		return []string{m.h.ownName()}
	}
	return m.h.fleet.Usable()
}

// announce tells once how much memory the level takes, of which nodes.
func (m *memory) announce(c *mirroring, images []oob.ImageInfo) {
	if m.told || c.broken != nil {
		return
	}
	m.told = true
	size := func(rank int) int64 { return images[rank].Size }
	load := make([]int64, len(c.p.Nodes))
	if c.groups != nil {
		load = protect.Load(c.p, c.groups, size)
	}
	for rank, at := range c.p.Of {
		load[at] += size(rank)
	}
	var words []string
	for i, n := range load {
		if n > 0 {
			words = append(words, fmt.Sprintf("%s %d MB", c.p.Nodes[i].Name, 2*n>>20))
		}
	}
	m.h.verbose("checkpoints in memory take, two snapshots in turn: %s", strings.Join(words, ", "))
}

// forget removes the snapshots in memory that are needed no more: all but the newest, and the newest that has all its
// copies. So a weak snapshot never costs the last strong one.
func (h *head) forget() (drop []*snapshot.Snapshot) {
	newest, strong := true, false // is it the newest; was a strong one met
	for _, c := range slices.Backward(h.chain) {
		if !inMemory(c.snap) {
			continue
		}
		if !newest && (strong || c.weak) {
			drop = append(drop, c.snap)
		}
		newest, strong = false, strong || !c.weak
	}
	return drop
}
