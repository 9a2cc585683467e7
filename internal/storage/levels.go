package storage

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
	"github.com/gorun-mpi/gorun/internal/storage/interval"
)

// The ranks write the base level. The other levels get copies of its snapshots while the program
// runs, each level one at a time, made by the keepers of the nodes that have the images. A slow
// level does not hold up the others, see snapFor. Copying does not depend on the life of the ranks:
// it goes on while they are started again.

// levels is the state of these copies.
type levels struct {
	plan   *flush.Plan
	timer  *time.Timer
	copies []*behind // of plan.Levels, those that are being made
	mends  *behind   // lost images that are being made
	ending bool      // no more copies are begun
	mend   mending
	base   counts
	others []counts // of plan.Levels
	merged []mergedLast
	upTo   []int // snapshots that had been committed when the newest copy of each was begun
}

// behind is work beside the running program: a copy, or the making of lost images. nil means none.
type behind struct {
	stop   context.CancelCauseFunc
	over   chan struct{} // closed when it has ended
	memory bool          // it may read images in memory
	beside bool          // other copies were made meanwhile
	cost   *copyCost
}

// begin begins work. The work ends with close(over).
func begin(memory bool) (*behind, context.Context) {
	ctx, stop := context.WithCancelCause(context.Background())
	return &behind{stop: stop, over: make(chan struct{}), memory: memory, cost: newCost()}, ctx
}

// all returns the work under way.
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

// reading reports whether work under way may read memory.
func (v *levels) reading() bool {
	return slices.ContainsFunc(v.all(), func(w *behind) bool { return w.memory })
}

// counts are the copies of a level by this gorun.
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

// copyCost adds up the cost of a copy into a level.
type copyCost struct {
	cpu   map[string]time.Duration // of the nodes
	took  time.Duration
	bytes atomic.Int64 // that are done
}

func newCost() *copyCost { return &copyCost{cpu: map[string]time.Duration{}} }

// Cost is the cost of a copy to a level.
type Cost struct {
	CPU  map[string]time.Duration // by node
	Took time.Duration
}

// SetEvery sets how often each level gets a copy. The default is that of the options.
func (sv *Service) SetEvery(every []time.Duration) {
	for i, d := range every {
		sv.levels.plan.SetEvery(i, d)
	}
	sv.flushDue()
}

// Survives is the largest failure after which a level still has its snapshots; nil: the one of a job without levels.
func (sv *Service) Survives(l *spec.Level) interval.Scope {
	var place snapshot.Place
	if l != nil {
		place = l.Place
	} else {
		place, _ = sv.placeFor(false)
	}
	switch {
	case place == memPlace && sv.memory.policy != nil:
		return min(interval.Process+interval.Scope(sv.memory.policy.Promise().Nodes), interval.Nodes)
	case onNodes(place):
		return interval.Process
	}
	return interval.All
}

// openLevels begins to count.
func (sv *Service) openLevels() {
	var all []flush.Level
	if b := sv.opt.Base; b != nil {
		if b.Place != memPlace {
			b.Place = sv.place()
		}
	}
	for i := range sv.opt.Levels {
		l := &sv.opt.Levels[i]
		l.Place = sv.placeOf(l)
		all = append(all, flush.Level{Name: l.Name, Every: l.Every})
	}
	sv.levels.plan = flush.NewPlan(all, time.Now())
	sv.levels.copies = make([]*behind, len(all))
	sv.levels.others, sv.levels.merged, sv.levels.upTo = make([]counts, len(all)), make([]mergedLast, len(all)), make([]int, len(all))
	if from := sv.opt.From; from != nil {
		for i, l := range sv.opt.Levels {
			if c, there := from.Copy(l.Place); there {
				sv.levels.plan.Levels[i].Last, sv.levels.plan.Levels[i].At = from.Schema.Sequence, c.Created
			}
		}
	}
}

// flushDue begins the copies that are due, and schedules its next call.
func (sv *Service) flushDue() {
	v := &sv.levels
	now := time.Now()
	newest := func(level int) int {
		if s := sv.snapFor(level); s != nil {
			return s.Schema.Sequence
		}
		return 0
	}
	for !v.ending {
		i, ok := v.plan.Next(newest, now)
		if !ok {
			break
		}
		s := sv.snapFor(i)
		if said := v.plan.Begin(i, now); said != "" {
			sv.say("%s", said)
		}
		sv.flushTo(i, s)
	}
	if wait, ok := v.plan.Wait(now); ok && !v.ending {
		if v.timer != nil {
			v.timer.Stop()
		}
		v.timer = sv.after(wait, sv.flushDue)
	}
}

// snapFor is the newest snapshot that a level can get now, nil if there is none. That is the newest
// of all, unless it is in memory. Memory has room for one snapshot that stays because it is read,
// and the first level reads it. A further level, which may be slow and would hold up the first one,
// takes a snapshot that has left memory.
func (sv *Service) snapFor(level int) *snapshot.Snapshot {
	s, all := sv.newest(), sv.levels.plan.Levels
	if !InMemory(s) {
		return s
	}
	if slices.ContainsFunc(all[:level], func(l flush.State) bool { return l.Every > 0 && l.Fails == 0 }) {
		for _, c := range slices.Backward(sv.chain) {
			if !InMemory(c.snap) && !onlyAt(c.snap, sv.opt.Levels[level].Place) {
				return c.snap
			}
		}
		return nil
	}
	if sv.levels.reading() {
		return nil
	}
	return s
}

// onlyAt reports whether a snapshot is at a place and nowhere else.
func onlyAt(s *snapshot.Snapshot, p snapshot.Place) bool {
	all := s.Copies()
	return len(all) == 1 && all[0].Place() == p
}

// flushTo copies a snapshot to a level beside the head's goroutine.
func (sv *Service) flushTo(i int, s *snapshot.Snapshot) {
	v, l := &sv.levels, sv.opt.Levels[i]
	w, ctx := begin(InMemory(s))
	v.copies[i] = w
	if all := v.all(); len(all) > 1 {
		for _, w := range all {
			w.beside = true
		}
	}
	sv.besides()
	sv.head.Copying()
	sv.verbose("level %s is to have snapshot %d", l.Name, s.Schema.Sequence)
	m, upTo := sv.mergingFor(i, s), sv.commits
	hold, _ := s.Hold() // a newer snapshot may replace it before the copy holds it; then the copy says so
	go func() {
		made, unmerged, err := sv.bring(ctx, m, s, &l, w.cost)
		hold.Release()
		sv.post(func() {
			switch {
			case unmerged != nil:
				sv.verbose("level %s gets copies, and nothing merged: %v", l.Name, unmerged)
			case m != nil && err == nil:
				sv.addMerged(i, m, made[0])
			}
			if err == nil {
				v.upTo[i] = upTo
			}
			sv.copied(i, made, s, w, err)
			if len(made) > 0 {
				sv.prune()
			}
		})
		close(w.over)
	}()
}

// bring merges a snapshot for a level, or copies it. It returns the snapshots that were made or
// have changed, and, if a merge was due and failed, why.
func (sv *Service) bring(ctx context.Context, m *merging, s *snapshot.Snapshot, l *spec.Level, cost *copyCost) (made []*snapshot.Snapshot, unmerged, err error) {
	if m != nil {
		one, err := sv.merge(ctx, m, l, cost)
		if err == nil {
			return []*snapshot.Snapshot{one}, nil, nil
		}
		if ctx.Err() != nil {
			return nil, nil, err
		}
		unmerged = err
	}
	made, err = sv.copyChain(ctx, s, l, cost)
	return made, unmerged, err
}

// copied takes the result of a copy.
func (sv *Service) copied(i int, made []*snapshot.Snapshot, s *snapshot.Snapshot, w *behind, err error) {
	v, l := &sv.levels, &sv.opt.Levels[i]
	sv.renew(made)
	v.copies[i] = nil
	sv.besides()
	if said := v.plan.End(i, s.Schema.Sequence, sv.withRemedy(err), time.Now()); said != "" && !v.ending {
		sv.say("%s", said)
	}
	v.others[i].add(made, w.cost.took)
	if err != nil {
		v.others[i].failed++
	}
	if err == nil {
		sv.verbose("level %s has snapshot %d", l.Name, s.Schema.Sequence)
		if !w.beside { // with others at the same time its share of the cost is unknown
			sv.head.Copied(i, Cost{CPU: w.cost.cpu, Took: w.cost.took})
		}
	}
	sv.flushDue()
}

// renew replaces changed snapshots by their present form.
func (sv *Service) renew(now []*snapshot.Snapshot) {
	for _, s := range now {
		for i := range sv.chain {
			if sv.chain[i].snap.Dir == s.Dir {
				sv.chain[i].snap = s
			}
		}
	}
	if len(now) > 0 {
		sv.keeps()
	}
}

// Levels are the levels for status, the memory of the nodes first. auto is the interval of
// checkpoints, if it is chosen by their cost.
func (sv *Service) Levels(auto time.Duration) []control.Level {
	return append(sv.memoryState(auto), sv.levelStates(auto)...)
}

func (sv *Service) levelStates(auto time.Duration) (all []control.Level) {
	v := &sv.levels
	if v.plan == nil || sv.opt.Base == nil {
		return nil
	}
	base := control.Level{Name: sv.opt.Base.Name, Every: sv.opt.Base.Every, Auto: sv.opt.CkptAuto, Where: sv.opt.Base.Place.String()}
	if sv.opt.CkptAuto {
		base.Every = auto
	}
	newest := 0
	if s := sv.newest(); s != nil {
		newest = s.Schema.Sequence
		base.Last, base.At = newest, s.Schema.Created
	}
	if sv.memory != nil {
		base.Err, base.Missing = sv.memory.tended.lacks.String(), len(sv.memory.tended.lacks)
	}
	base.Missing += v.mend.missing[base.Name]
	v.base.fill(&base)
	all = append(all, base)
	for i, p := range v.plan.Levels {
		l := control.Level{Name: p.Name, Every: p.Every, Auto: sv.opt.CkptAuto, Where: sv.opt.Levels[i].Place.String(), Last: p.Last, At: p.At, Next: p.Due, Took: p.Took, Err: p.Err}
		v.others[i].fill(&l)
		l.Missing = v.mend.missing[l.Name]
		if w := v.copies[i]; w != nil {
			l.Copying, l.Bytes = true, w.cost.bytes.Load()
		}
		if p.Last < newest {
			l.Behind = max(sv.commits-v.upTo[i], 1)
		}
		all = append(all, l)
	}
	return all
}
