package mpi

import (
	"context"
	"fmt"
	"hash/fnv"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Comm is a communicator: an ordered group of ranks with messages of its own. No receive on another
// communicator can take them. (MPI-4.1, chapter 7)
//
// A Comm may be a view of another (WithContext, WithCodec): it is the same
// communicator with another setting.
type Comm struct {
	*core
	view  *engine.View    // cancellation; nil: none
	ctxt  context.Context // the context that view follows
	of    *Comm           // the Comm that this is a view of: keeps its cancellation alive
	codec Codec
}

// core is what all views of a communicator share.
type core struct {
	env   *env
	eng   *engine.Engine // env.eng
	path  string         // how it was made, for people
	ctx   uint64         // how it was made, for messages; lowest bit 0
	begun uint64         // context of collectives that go on while the program computes; lowest bit 1, as it is one of collectives
	from  uint64         // ctx of the communicator that it was made of
	rank  int
	size  int
	ranks []int // world rank by rank; nil: the same
	byWorld
	freed    atomic.Bool
	children atomic.Uint64 // operations that made communicators of this one
	coll     collState
	inter    *inter     // nil: an intracommunicator; else size and ranks are those of the remote group
	side     bool       // it is the local one of an intercommunicator, which fails with it
	table    coll.Table // its own choice of algorithms; nil: that of the job
	local               // what only this rank knows of it
	pairs    pairs
}

// own returns the communicator of the group that this rank is in: c, or the local one of an intercommunicator.
func (c *core) own() *core {
	if c.inter != nil {
		return c.inter.local.core
	}
	return c
}

// byWorld is the inverse of core.ranks, built when a wildcard first needs it.
type byWorld struct {
	once  sync.Once
	index map[int]int
}

// contextOf hashes a creation path; the lowest bit is left 0.
func contextOf(parent, n uint64, colour string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%016x/%d:%s", parent, n, colour)
	x := h.Sum64() // FNV mixes its low bits well and its high bits badly: finish it
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x &^ 1
}

func (e *env) newComm(path string, ctx, from uint64, rank, size int, ranks []int) *Comm {
	c := &Comm{core: &core{env: e, eng: e.eng, path: path, ctx: ctx, from: from, rank: rank, size: size, ranks: ranks}, codec: Gob}
	c.coll.turn = make(chan struct{}, 1)
	c.nameContexts()
	if size > 1 {
		e.watch.add(c.core)
	}
	return c
}

// nameContexts finds the context of what is begun, and tells people whose contexts these are.
func (c *core) nameContexts() {
	c.begun = contextOf(c.ctx, 0, "begun") | 1
	c.env.job.RegisterContext(c.ctx, c.path)
	c.env.job.RegisterContext(c.begun&^1, c.path)
}

// local is what only this rank knows of a communicator.
type local struct {
	mu    sync.Mutex
	attrs []attribute
	name  string
	info  Info               // hints that act
	made  map[madeKey]uint64 // how often CreateGroup has made a communicator of that group
}

// madeKey names a communicator that not all ranks of its parent make.
type madeKey struct {
	members uint64 // digest
	tag     int
}

// ready reports why no call may be made on c, nil if it may.
func (c *Comm) ready() error {
	switch {
	case c.none():
		return fmt.Errorf("%w: there is none (nil, before Init, or this rank is not a member)", ErrComm)
	case c.freed.Load():
		return fmt.Errorf("%w: %s was freed", ErrComm, c.path)
	case c.env.ended.Load():
		return ErrInit
	}
	return nil
}

// joins is ready for a collective. Where this rank has freed c others may wait in that call: the watch tells them.
func (c *Comm) joins() error {
	err := c.ready()
	if err != nil && !c.none() && c.freed.Load() && c.count() > 1 {
		c.coll.refused.Store(c.coll.word.Load()>>1 + 1)
		c.env.watch.start()
	}
	return err
}

// none reports whether c is no communicator: nil, or a Comm that this package has not made.
func (c *Comm) none() bool { return c == nil || c.core == nil }

// Rank returns the calling rank's number in c, 0..Size()-1; Undefined if c is
// nil. (MPI-4.1, chapter 7.4.1)
func (c *Comm) Rank() int {
	if c.none() {
		return Undefined
	}
	return c.rank
}

// Size returns the number of ranks in c, 0 if c is nil. (MPI-4.1, chapter
// 7.4.1)
func (c *Comm) Size() int {
	if c.none() {
		return 0
	}
	return c.own().size
}

// String returns the creation path of c, e.g. "world", "world/2", "world/3:1"
// for colour 1 of the third operation on the world.
func (c *Comm) String() string {
	if c.none() {
		return "no communicator"
	}
	return c.path
}

// WorldRank returns the rank in the world of a rank of c, Undefined if there is
// none. (MPI-4.1, chapter 7.3.1, MPI_Group_translate_ranks)
func (c *Comm) WorldRank(rank int) int {
	if rank == ProcNull {
		return ProcNull
	}
	if c.none() || rank < 0 || rank >= c.own().size {
		return Undefined
	}
	return c.own().toWorld(rank)
}

// FromWorld returns the rank in c of a rank of the world, Undefined if it is no
// member. (MPI-4.1, chapter 7.3.1, MPI_Group_translate_ranks)
func (c *Comm) FromWorld(world int) int {
	switch {
	case world == ProcNull:
		return ProcNull
	case c.none() || world < 0 || world >= c.env.job.Size:
		return Undefined
	}
	return c.own().fromWorld(world)
}

func (c *core) toWorld(rank int) int {
	if c.ranks == nil {
		return rank
	}
	return c.ranks[rank]
}

func (c *core) fromWorld(world int) int {
	if c.ranks == nil {
		return world
	}
	c.byWorld.once.Do(func() {
		c.index = make(map[int]int, len(c.ranks))
		for r, w := range c.ranks {
			c.index[w] = r
		}
	})
	if r, ok := c.index[world]; ok {
		return r
	}
	return Undefined
}

// members returns the world ranks of all members but this one, of both groups.
func (c *core) members() []int {
	all := make([]int, 0, c.size)
	for r := range c.size {
		if r != c.rank || c.inter != nil {
			all = append(all, c.toWorld(r))
		}
	}
	if c.inter != nil {
		all = append(all, c.inter.local.members()...)
	}
	return all
}

// count returns how many members there are, in both groups.
func (c *core) count() int {
	if c.inter != nil {
		return c.size + c.inter.local.size
	}
	return c.size
}

// leads reports whether this rank is the first one.
func (c *core) leads() bool { return c.rank == 0 && (c.inter == nil || c.inter.low) }

// first returns the rank in the world of the first one, which compares what all others report.
func (c *core) first() int {
	if c.inter != nil && c.inter.low {
		return c.inter.local.toWorld(0)
	}
	return c.toWorld(0)
}

// Self returns the communicator of the calling rank alone. (MPI-4.1, chapter
// 7.2.4)
func (c *Comm) Self() *Comm {
	if c.none() {
		return nil
	}
	return c.env.self
}

// Dup returns a new communicator of the same ranks in the same order. Its messages are separate from those of
// c. All ranks of c call it, in the same order as its collectives. It does not wait for them. It has c's
// hints and Codec, and attributes as their Keys say. Errors: ErrComm. (MPI-4.1, chapter 7.4.2)
func (c *Comm) Dup() (*Comm, error) {
	if c.crosses() {
		return c.dupInter()
	}
	x, err := c.enter(kindDup, noRoot, nil, -1, nil)
	if err != nil {
		return nil, err
	}
	n := c.children.Add(1)
	d := c.env.newComm(fmt.Sprintf("%s/%d", c.path, n), contextOf(c.ctx, n, "dup"), c.ctx, c.rank, c.size, c.ranks)
	d.codec, d.table, d.info = c.codec, c.table, c.info
	err = x.leave(nil)
	c.copyAttributes(d)
	return d, err
}

// Free gives the communicator up. Later calls on it return ErrComm, and messages that nobody has received are
// dropped. Requests begun before are completed as usual. Every rank calls it when it no longer needs c; it
// waits for nobody. Where others make one more collective on it they get ErrMismatch. Errors: ErrComm; the world and self
// cannot be freed. (MPI-4.1, chapter 7.4.3)
func (c *Comm) Free() error {
	if err := c.ready(); err != nil {
		return c.fail("Free", err)
	}
	if c.core == c.env.world.core || c.core == c.env.self.core {
		return c.fail("Free", fmt.Errorf("%w: %s lives as long as the job", ErrComm, c.path))
	}
	c.freeAttributes()
	if c.freed.Swap(true) {
		return c.fail("Free", fmt.Errorf("%w: freed twice", ErrComm))
	}
	if c.inter != nil {
		_ = c.inter.local.Free() // it was made with c, and cannot be freed but here
	}
	failed := c.env.close(c.core)
	c.leaveTeam()
	c.env.eng.FreeContext(c.ctx)
	c.env.eng.FreeContext(c.ctx | 1)
	c.env.eng.FreeContext(c.begun)
	c.env.job.ReleaseContext(c.ctx)
	c.env.job.ReleaseContext(c.begun &^ 1)
	c.env.watch.remove(c.core, failed)
	return nil
}

// WithContext returns a view of c whose blocking calls end with ErrDeadline, wrapping ctx.Err(), once ctx is
// done. A message already on its way is finished first. A collective that ends so poisons the communicator: the
// other ranks' part in it, and all calls from then on, return ErrPoisoned and ErrGaveUp on every rank, and name
// the rank that gave up. The view takes no resources beyond c's and need not be freed. A nil ctx is never done.
func (c *Comm) WithContext(ctx context.Context) *Comm {
	if c.none() || ctx == nil || ctx.Done() == nil {
		return c
	}
	v := engine.NewView(ctx, c.env.eng)
	d := &Comm{core: c.core, view: v, ctxt: ctx, codec: c.codec}
	runtime.AddCleanup(d, func(v *engine.View) { v.Close() }, v)
	return d
}

// WithCodec returns a view of c whose SendObject and RecvObject use the codec
// instead of Gob; nil is Gob. All ranks must use the same.
func (c *Comm) WithCodec(codec Codec) *Comm {
	if c.none() {
		return c
	}
	if codec == nil {
		codec = Gob
	}
	return &Comm{core: c.core, view: c.view, ctxt: c.ctxt, of: c, codec: codec}
}
