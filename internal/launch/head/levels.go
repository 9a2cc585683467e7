package head

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/cr/store"
	"github.com/gorun-mpi/gorun/cr/store/mem"
	"github.com/gorun-mpi/gorun/cr/store/node"
	"github.com/gorun-mpi/gorun/cr/store/s3"
	"github.com/gorun-mpi/gorun/internal/exact"
	"github.com/gorun-mpi/gorun/internal/flush"
	"github.com/gorun-mpi/gorun/internal/kinds"
	"github.com/gorun-mpi/gorun/internal/launch/control"
	"github.com/gorun-mpi/gorun/internal/launch/places"
	"github.com/gorun-mpi/gorun/internal/launch/spec"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
)

// Levels: the ranks write the base; the others get copies of its snapshots behind the program, each level one at a time, made by the
// keepers of the nodes that have the images. A level that is slow does not hold up the others, see snapFor. No life is bound to all
// that: it goes on while ranks are started again.

// levels is the state of these copies; the loop's, but for progress.
type levels struct {
	plan   *flush.Plan
	timer  *time.Timer
	copies []*behind // of plan.Levels, those that are being made
	mends  *behind   // lost images that are being made
	ending bool      // no more are begun
	mend   mending
	base   counts
	others []counts // of plan.Levels
	merged []mergedLast
	upTo   []int // snapshots that had been committed when the newest copy of each was begun
}

// behind is work behind the program: a copy, or the making of lost images. A nil one is none.
type behind struct {
	stop   context.CancelCauseFunc
	over   chan struct{} // closed when it has ended
	memory bool          // it may read what is in memory
	beside bool          // other copies were made meanwhile
	cost   *copyCost
}

// begin makes work. It ends with close(over).
func begin(memory bool) (*behind, context.Context) {
	ctx, stop := context.WithCancelCause(context.Background())
	return &behind{stop: stop, over: make(chan struct{}), memory: memory, cost: newCost()}, ctx
}

// all is what is under way.
func (v *levels) all() (all []*behind) {
	for _, w := range append(slices.Clone(v.copies), v.mends) {
		if w != nil {
			all = append(all, w)
		}
	}
	return all
}

// copying reports whether copies are being made.
func (v *levels) copying() bool {
	return slices.ContainsFunc(v.copies, func(w *behind) bool { return w != nil })
}

// reading reports whether what is under way may read memory.
func (v *levels) reading() bool {
	return slices.ContainsFunc(v.all(), func(w *behind) bool { return w.memory })
}

// counts is what a level got from this gorun.
type counts struct {
	commits, failed int
	bytes           int64
	took            time.Duration // the newest
}

func (c *counts) add(all []*snapshot.Snapshot, took time.Duration) {
	c.commits += len(all)
	for _, s := range all {
		c.bytes += s.Bytes()
	}
	c.took = took
}

func (c *counts) fill(l *control.Level) {
	l.Commits, l.Stored, l.Failed, l.Took = c.commits, c.bytes, c.failed, c.took
}

// openLevels begins to count.
func (h *head) openLevels() {
	var all []flush.Level
	if b := h.opt.Base; b != nil {
		if b.Place != memPlace {
			b.Place = h.place()
		}
	}
	for i := range h.opt.Levels {
		l := &h.opt.Levels[i]
		l.Place = h.placeOf(l)
		all = append(all, flush.Level{Name: l.Name, Every: l.Every})
	}
	h.levels.plan = flush.NewPlan(all, time.Now())
	h.levels.copies = make([]*behind, len(all))
	h.levels.others, h.levels.merged, h.levels.upTo = make([]counts, len(all)), make([]mergedLast, len(all)), make([]int, len(all))
	if from := h.opt.From; from != nil {
		for i, l := range h.opt.Levels {
			if c, there := from.Copy(l.Place); there {
				h.levels.plan.Levels[i].Last, h.levels.plan.Levels[i].At = from.Schema.Sequence, c.Created
			}
		}
	}
	h.openAuto()
	h.flushDue()
}

// newestSnap is the newest snapshot of the own chain, nil if there is none.
func (h *head) newestSnap() *snapshot.Snapshot {
	if len(h.chain) == 0 {
		return nil
	}
	return h.chain[len(h.chain)-1].snap
}

// flushDue begins the copies that are due, and sees to it that it is called again.
func (h *head) flushDue() {
	v := &h.levels
	now := time.Now()
	newest := func(level int) int {
		if s := h.snapFor(level); s != nil {
			return s.Schema.Sequence
		}
		return 0
	}
	for !v.ending {
		i, ok := v.plan.Next(newest, now)
		if !ok {
			break
		}
		s := h.snapFor(i)
		if said := v.plan.Begin(i, now); said != "" {
			h.say("%s", said)
		}
		h.flushTo(i, s)
	}
	if wait, ok := v.plan.Wait(now); ok && !v.ending {
		if v.timer != nil {
			v.timer.Stop()
		}
		v.timer = h.after(wait, h.flushDue)
	}
}

// snapFor is the newest snapshot that a level can get now, nil if there is none. That is the newest one, but where the newest ones are in memory. There is
// room in memory for one that is kept because it is read, and the first level reads it. What comes after a level that gets its copies takes what is not in
// memory any more: it may be slow, and would hold up the first one.
func (h *head) snapFor(level int) *snapshot.Snapshot {
	s, all := h.newestSnap(), h.levels.plan.Levels
	if !inMemory(s) {
		return s
	}
	if slices.ContainsFunc(all[:level], func(l flush.State) bool { return l.Every > 0 && l.Fails == 0 }) {
		for _, c := range slices.Backward(h.chain) {
			if !inMemory(c.snap) && !onlyAt(c.snap, h.opt.Levels[level].Place) {
				return c.snap
			}
		}
		return nil
	}
	if h.levels.reading() {
		return nil
	}
	return s
}

// onlyAt reports whether a snapshot is at a place and nowhere else.
func onlyAt(s *snapshot.Snapshot, p snapshot.Place) bool {
	all := s.Copies()
	return len(all) == 1 && all[0].Place() == p
}

// flushTo copies a snapshot to a level beside the loop.
func (h *head) flushTo(i int, s *snapshot.Snapshot) {
	v, l := &h.levels, h.opt.Levels[i]
	w, ctx := begin(inMemory(s))
	v.copies[i] = w
	if all := v.all(); len(all) > 1 {
		for _, w := range all {
			w.beside = true
		}
	}
	h.inc.copies()
	h.verbose("level %s is to have snapshot %d", l.Name, s.Schema.Sequence)
	m, upTo := h.mergingFor(i, s), h.commits
	hold, _ := s.Hold() // a newer one may take its place before the copy holds it; if it has, the copy says so
	go func() {
		made, unmerged, err := h.bring(ctx, m, s, &l, w.cost)
		hold.Release()
		h.post(func() {
			switch {
			case unmerged != nil:
				h.verbose("level %s gets copies, and nothing merged: %v", l.Name, unmerged)
			case m != nil && err == nil:
				h.addMerged(i, m, made[0])
			}
			if err == nil {
				v.upTo[i] = upTo
			}
			h.copied(i, made, s, w, err)
			if len(made) > 0 {
				h.inc.prune()
			}
		})
		close(w.over)
	}()
}

// bring merges a snapshot for a level, or copies it. It returns what was made or has changed, and why nothing was merged that should have been.
func (h *head) bring(ctx context.Context, m *merging, s *snapshot.Snapshot, l *spec.Level, cost *copyCost) (made []*snapshot.Snapshot, unmerged, err error) {
	if m != nil {
		one, err := h.merge(ctx, m, l, cost)
		if err == nil {
			return []*snapshot.Snapshot{one}, nil, nil
		}
		if ctx.Err() != nil {
			return nil, nil, err
		}
		unmerged = err
	}
	made, err = h.copyChain(ctx, s, l, cost)
	return made, unmerged, err
}

// copied takes what has become of a copy.
func (h *head) copied(i int, made []*snapshot.Snapshot, s *snapshot.Snapshot, w *behind, err error) {
	v, l := &h.levels, &h.opt.Levels[i]
	h.renew(made)
	v.copies[i] = nil
	h.inc.phase()
	if said := v.plan.End(i, s.Schema.Sequence, h.withRemedyOrNil(err), time.Now()); said != "" && !v.ending {
		h.say("%s", said)
	}
	v.others[i].add(made, w.cost.took)
	if err != nil {
		v.others[i].failed++
	}
	if err == nil {
		h.verbose("level %s has snapshot %d", l.Name, s.Schema.Sequence)
		if !w.beside { // else nobody knows which copy has cost the ranks what
			h.inc.whenTold(func() { h.measureCopy(i, w.cost) })
		}
	}
	h.flushDue()
}

func (h *head) withRemedyOrNil(err error) error {
	if err == nil {
		return nil
	}
	return h.withRemedy(err)
}

// renew takes what snapshots are now.
func (h *head) renew(now []*snapshot.Snapshot) {
	for _, s := range now {
		for i := range h.chain {
			if h.chain[i].snap.Dir == s.Dir {
				h.chain[i].snap = s
			}
		}
	}
}

// copyChain copies a snapshot, and what it builds on, to a level: the oldest first, so that what is there is of use at
// any time. It returns those that have changed, and adds what that has cost.
func (h *head) copyChain(ctx context.Context, s *snapshot.Snapshot, l *spec.Level, cost *copyCost) (made []*snapshot.Snapshot, err error) {
	began := time.Now()
	defer func() { cost.took += time.Since(began) }()
	if s, err = h.cat.Load(s.Dir); err != nil {
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
		if err := h.taken(); err != nil { // this head may have stood still
			return made, err
		}
		now, err := h.copyOne(ctx, s, l, cost)
		if errors.Is(err, fs.ErrExist) {
			continue // somebody has made it
		}
		if err != nil {
			return made, err
		}
		made = append(made, now)
	}
	return made, nil
}

// copyOne makes one copy.
func (h *head) copyOne(ctx context.Context, s *snapshot.Snapshot, l *spec.Level, cost *copyCost) (*snapshot.Snapshot, error) {
	c, err := h.cat.Copy(s, l.Place, h.nodeNames())
	if err != nil {
		return nil, err
	}
	defer func() { c.Abort(errors.Is(context.Cause(ctx), errWell)) }() // else another try goes on with it
	s = c.Snapshot()
	st, set := c.Images()
	if err := h.copyImages(ctx, &copying{s: s, to: st, set: set, level: l, cost: cost}, s.Schema.Images); err != nil {
		return nil, err
	}
	return c.Commit(h.now())
}

// errWell says that a copy is of no use any more.
var errWell = errors.New("the job has ended well")

// copying is images of a snapshot that go to a level.
type copying struct {
	s     *snapshot.Snapshot
	to    store.Store
	set   string // there
	level *spec.Level
	where []string  // the nodes of the ranks, if the images of each go there
	cost  *copyCost // gets what it has cost
}

// copyImages copies images, each of the first of the other copies that has it good.
func (h *head) copyImages(ctx context.Context, c *copying, images []snapshot.Image) error {
	left := images
	var errs []error
	for _, from := range c.s.Copies() {
		if from.Place() == c.level.Place || len(left) == 0 || ctx.Err() != nil {
			continue
		}
		var err error
		if left, err = h.copyFrom(ctx, c, from, left); err != nil && from.Place() == memPlace && h.memory != nil && ctx.Err() == nil {
			left, err = h.copyFetched(ctx, c, from, left, err)
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

// copyFrom copies images of one copy: each node those that it has, or is to have, the head those that all see. left are those
// that could not be copied.
func (h *head) copyFrom(ctx context.Context, c *copying, from snapshot.Copy, images []snapshot.Image) (left []snapshot.Image, err error) {
	shares, left, err := h.shares(ctx, c, from, images)
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
		o := h.flushOrder(c, from, at, shares[at])
		all.Go(func() {
			var done wire.Flushed
			done, errs[i] = h.flushOn(ctx, at, o, c.cost)
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

// copyFetched copies images that could not be copied from memory, because they are lost or damaged where they were written: the head
// fetches them, as a restart does, of other nodes or computed of shards. Why others could not be copied is told by why.
func (h *head) copyFetched(ctx context.Context, c *copying, from snapshot.Copy, images []snapshot.Image, why error) (left []snapshot.Image, err error) {
	m, own := h.memory, h.ownName()
	has, err := h.holders(ctx, c.s, from)
	if err != nil || own == "" {
		return images, errors.Join(why, err)
	}
	var got []snapshot.Image
	errs := []error{why}
	for _, im := range images {
		if at := has[im.File]; at != "" && m.damage(ctx, at, from.Set, im.File) == nil {
			left = append(left, im) // it is not to blame
			continue
		}
		if _, err := m.store("").Fetch(ctx, from.Set, im.File, node.Image(im.Digest), nil); err != nil {
			left, errs = append(left, im), append(errs, err)
			continue
		}
		got = append(got, im)
	}
	if len(got) > 0 {
		if _, err := h.flushOn(ctx, own, h.flushOrder(c, from, own, got), c.cost); err != nil {
			left, errs = append(left, got...), append(errs, err)
		}
	}
	if len(left) == 0 {
		return nil, nil
	}
	return left, flush.Few(errs)
}

// shares deals images out to the nodes that are to copy them. left are those that no node has, as err says.
func (h *head) shares(ctx context.Context, c *copying, from snapshot.Copy, images []snapshot.Image) (shares map[string][]snapshot.Image, left []snapshot.Image, err error) {
	var has map[string]string
	if onNodes(from.Place()) {
		if has, err = h.holders(ctx, c.s, from); err != nil {
			return nil, images, err
		}
	}
	shares = map[string][]snapshot.Image{}
	var errs []error
	for _, im := range images {
		at := h.ownName()
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

// flushOrder has a node copy images.
func (h *head) flushOrder(c *copying, from snapshot.Copy, at string, images []snapshot.Image) *wire.Flush {
	o := &wire.Flush{From: h.storeOn(from.Place(), at), FromSet: from.Set, To: h.storeOn(c.level.Place, at), ToSet: c.set, Rate: c.level.Rate}
	if from.Store == "" {
		o.FromSet = filepath.Base(filepath.Dir(c.s.Dir)) + "/" + filepath.Base(c.s.Dir)
	}
	if needsEnv(from.Place()) || needsEnv(c.level.Place) {
		o.Env = h.opt.Env
	}
	for _, im := range images {
		o.Pieces = append(o.Pieces, flush.Piece{Name: im.File, Size: im.Size, Digest: im.Digest})
	}
	return o
}

// holders are the nodes that have the images of a copy: of each the one that wrote it, if it has it.
func (h *head) holders(ctx context.Context, s *snapshot.Snapshot, from snapshot.Copy) (map[string]string, error) {
	st, err := h.openPlace(from.Place(), s.Nodes())
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
func (h *head) storeOn(p snapshot.Place, at string) wire.Store {
	if p == snapshot.Beside {
		return wire.Store{Kind: store.KindDir, Folder: exact.String(h.cat.Root()), Node: at}
	}
	k := kinds.Place(p)
	if inner := k.Inner(); inner.Kind == node.Kind {
		folder, _ := node.Expand(inner.Folder, at) // checked by whoever opens it
		k = k.WithFolder(folder)
	}
	return wire.Store{Kind: k.Kind, Folder: exact.String(k.Folder), Node: at}
}

// onNodes reports whether a place lies in parts on the nodes.
func onNodes(p snapshot.Place) bool {
	return p == memPlace || kinds.Place(p).Inner().Kind == node.Kind
}

// openHere opens a store as the head's own node sees it.
func (h *head) openHere(w wire.Store, env []string) (store.Store, error) {
	if w.Kind == mem.Kind && h.memory != nil {
		return h.memory.own, nil
	}
	return places.Here(w, env)
}

// needsEnv reports whether a place needs credentials of the environment.
func needsEnv(p snapshot.Place) bool { return kinds.Place(p).Inner().Kind == s3.Kind }

// flushOn has a node copy. cost is told how far that is.
func (h *head) flushOn(ctx context.Context, at string, o *wire.Flush, cost *copyCost) (wire.Flushed, error) {
	if at == h.ownName() || h.fleet == nil {
		return places.Flush(ctx, h.openHere, o, func(n int64) { cost.bytes.Add(n) })
	}
	var before int64
	return h.fleet.Flush(ctx, at, o, func(done int64) {
		cost.bytes.Add(done - before)
		before = done
	})
}

// endLevels ends the copies that are being made when the job has ended. If the job may go on from its newest snapshot, the
// strongest level gets that first. The loop has ended. A signal gives it up: then nobody waits for a store that hangs.
func (h *head) endLevels() {
	v := &h.levels
	if v.plan == nil || len(v.plan.Levels) == 0 {
		return
	}
	v.ending = true
	wanted := h.result.Code != 0 || h.result.Last > 0
	ctx, stop := context.WithCancel(context.Background())
	if len(h.ending) > 0 {
		ctx, stop = signal.NotifyContext(ctx, h.ending...)
	}
	defer stop()
	if h.job.Obeyed() {
		stop()
	}
	if !wanted {
		for _, w := range v.all() {
			w.stop(errWell)
		}
		stop()
	}
	hangs := false
	for _, w := range v.all() {
		hangs = !ends(ctx, w.over, func() { w.stop(nil) }) || hangs
	}
	if hangs {
		return // and so may another
	}
	if s := h.newestSnap(); wanted && s != nil {
		h.lastCopies(ctx, s)
	}
}

// lastCopies copies the newest snapshot to the strongest level that can have it: it may be in memory, which ends now.
func (h *head) lastCopies(ctx context.Context, s *snapshot.Snapshot) {
	for i, l := range slices.Backward(h.opt.Levels) {
		if ctx.Err() != nil || h.lastCopy(ctx, s, i, &l) {
			return
		}
	}
}

// ends waits until something has ended. It gives that up with the context, and waits a moment more.
func ends(ctx context.Context, over <-chan struct{}, giveUp func()) bool {
	select {
	case <-over:
		return true
	case <-ctx.Done():
	}
	giveUp()
	select {
	case <-over:
		return true
	case <-time.After(endWithin):
		return false
	}
}

// endWithin is how long a copy that was given up may take to end.
const endWithin = 5 * time.Second

// lastCopy copies the newest snapshot to a level before the job ends. It reports whether it is there.
func (h *head) lastCopy(ctx context.Context, s *snapshot.Snapshot, i int, l *spec.Level) bool {
	if now, err := h.cat.Load(s.Dir); err == nil {
		if _, there := now.Copy(l.Place); there {
			return true
		}
	}
	if h.levels.merged[i].state == s.Schema.Sequence {
		return true
	}
	m := h.mergingFor(i, s)
	h.say("level %s gets snapshot %d, %.1f MB", l.Name, s.Schema.Sequence, float64(s.Bytes())/1e6)
	work, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	over, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(over)
		_, unmerged, err := h.bring(work, m, s, l, newCost())
		if unmerged != nil && h.opt.Verbose {
			h.say("level %s gets copies, and nothing merged: %v", l.Name, unmerged)
		}
		failed <- err
	}()
	err := errors.New("it was given up")
	if ends(ctx, over, giveUp) {
		err = <-failed
	}
	if err == nil {
		h.say("level %s has snapshot %d", l.Name, s.Schema.Sequence)
		if h.opt.Prunes() {
			if _, err := h.pruneOld(); err != nil {
				h.say("-keep: %v", err)
			}
		}
		return true
	}
	h.say("the newest snapshot has less protection than asked for: level %s did not get snapshot %d, which is %s only: %v",
		l.Name, s.Schema.Sequence, spec.PlacesOf(s), h.withRemedy(err))
	return false
}

// levelStates are the levels for status.
func (h *head) levelStates() (all []control.Level) {
	v := &h.levels
	if v.plan == nil || h.opt.Base == nil {
		return nil
	}
	base := control.Level{Name: h.opt.Base.Name, Every: h.opt.Base.Every, Auto: h.opt.CkptAuto, Where: h.opt.Base.Place.String()}
	if h.opt.CkptAuto {
		base.Every = h.auto.Every(h.ran())
	}
	newest := 0
	if s := h.newestSnap(); s != nil {
		newest = s.Schema.Sequence
		base.Last, base.At = newest, s.Schema.Created
	}
	if h.memory != nil {
		base.Err, base.Missing = h.memory.tended.lacks.String(), len(h.memory.tended.lacks)
	}
	base.Missing += v.mend.missing[base.Name]
	v.base.fill(&base)
	all = append(all, base)
	for i, p := range v.plan.Levels {
		l := control.Level{Name: p.Name, Every: p.Every, Auto: h.opt.CkptAuto, Where: h.opt.Levels[i].Place.String(), Last: p.Last, At: p.At, Next: p.Due, Took: p.Took, Err: p.Err}
		v.others[i].fill(&l)
		l.Missing = v.mend.missing[l.Name]
		if w := v.copies[i]; w != nil {
			l.Copying, l.Bytes = true, w.cost.bytes.Load()
		}
		if p.Last < newest {
			l.Behind = max(h.commits-v.upTo[i], 1)
		}
		all = append(all, l)
	}
	return all
}
