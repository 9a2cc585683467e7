package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
)

// Images that a level has lost are made again while the job runs, from the copy of another level: a
// disk was wiped, or a node is gone with its images and its ranks are elsewhere. The level's
// content is listed, not read: gorun snapshots -scrub finds damage. Images in memory are mended by
// their mirrors, see tend.go.

// mending is the state of the looks at levels.
type mending struct {
	at     map[string]time.Time // by level
	lineup string               // of nodes and ranks at the last look
	told   map[string]string    // by level: why it lacks images

	missing map[string]int // by level: images that could not be made again
}

// lookEvery bounds the time between two looks at a level. They come at least as often as its copies.
const lookEvery = 10 * time.Minute

// ill is a level that is to be looked at, with its newest snapshot.
type ill struct {
	level spec.Level
	snap  *snapshot.Snapshot
}

// Mend looks after the levels whose turn it is, or after all if nodes or ranks have changed. Lost
// images are made again when nothing else reads memory. A look does not read memory, so a level
// that does not answer does not hold up copies.
func (sv *Service) Mend() {
	v := &sv.levels
	if v.plan == nil || len(v.plan.Levels) == 0 || v.ending || v.mends != nil {
		return
	}
	now, lineup := time.Now(), sv.lines()
	moved := lineup != v.mend.lineup
	v.mend.lineup = lineup
	if v.mend.at == nil {
		v.mend = mending{at: map[string]time.Time{}, told: map[string]string{}, lineup: lineup, missing: map[string]int{}}
	}
	var due []ill
	for _, l := range append([]spec.Level{*sv.opt.Base}, sv.opt.Levels...) {
		if l.Place == memPlace || !moved && now.Sub(v.mend.at[l.Name]) < min(max(l.Every, time.Second), lookEvery) {
			continue
		}
		v.mend.at[l.Name] = now
		for _, c := range slices.Backward(sv.chain) {
			if _, there := c.snap.Copy(l.Place); there {
				due = append(due, ill{l, c.snap})
				break
			}
		}
	}
	if len(due) > 0 {
		sv.mendAll(due)
	}
}

// mendAll does it beside the head's goroutine.
func (sv *Service) mendAll(due []ill) {
	v := &sv.levels
	where := sv.whereRanksAre()
	w, ctx := begin(false)
	v.mends = w
	go func() {
		made, left, errs := make([]int, len(due)), make([]int, len(due)), make([]error, len(due))
		for i, x := range due {
			left[i], errs[i] = sv.lackOf(ctx, x)
		}
		if slices.Max(left) > 0 && sv.mayRead(w) {
			for i, x := range due {
				if left[i] > 0 {
					made[i], left[i], errs[i] = sv.mend(ctx, x, where, w.cost)
				}
			}
		}
		sv.post(func() {
			v.mends = nil
			for i, x := range due {
				v.mend.missing[x.level.Name] = left[i]
				sv.mended(x, made[i], errs[i])
			}
			sv.flushDue()
		})
		close(w.over)
	}()
}

// mayRead asks in the head's goroutine whether work may read memory from now on.
func (sv *Service) mayRead(w *behind) bool {
	may := make(chan bool, 1)
	sv.post(func() {
		w.memory = !sv.levels.reading()
		may <- w.memory
	})
	select {
	case ok := <-may:
		return ok
	case <-sv.head.Done():
		return false
	}
}

// answersWithin is how long a level may take to list its content.
const answersWithin = 30 * time.Second

// lackOf counts the images that a level has lost of a snapshot, and of those that it builds on.
func (sv *Service) lackOf(ctx context.Context, x ill) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	s, err := sv.cat.Load(x.snap.Dir)
	if err != nil {
		return 0, nil // a newer one has taken its place
	}
	chain, err := s.Chain()
	for _, s := range chain {
		if at, there := s.Copy(x.level.Place); there && len(s.Copies()) > 1 && err == nil {
			var lost []snapshot.Image
			lost, err = sv.lost(ctx, s, at)
			n += len(lost)
		}
	}
	if err != nil {
		err = &unasked{err}
	}
	return n, err
}

// unasked reports that a level could not be asked.
type unasked struct{ error }

func (e *unasked) Unwrap() error { return e.error }

// mended reports the result.
func (sv *Service) mended(x ill, made int, err error) {
	v, name := &sv.levels, x.level.Name
	if made > 0 {
		sv.say("level %s has lost images, and %d were made again", name, made)
	}
	if err == nil {
		delete(v.mend.told, name)
		return
	}
	if v.ending || v.mend.told[name] == flush.Reason(err.Error()) {
		return
	}
	v.mend.told[name] = flush.Reason(err.Error())
	what := "has lost images of"
	if errors.As(err, new(*unasked)) {
		what = "does not say what it has of"
	}
	sv.say("the job runs with less protection than asked for: level %s %s snapshot %d, and it is tried again: %v", name, what, x.snap.Schema.Sequence, sv.withRemedy(err))
}

// whereRanksAre are the nodes of the ranks.
func (sv *Service) whereRanksAre() []string {
	all := make([]string, sv.opt.NP)
	for rank, name := range sv.lineup.Nodes {
		if all[rank] = name; sv.nodes == nil {
			all[rank] = sv.OwnName()
		}
	}
	return all
}

// mend makes the images of a snapshot, and of those that it builds on, that a level has lost. left are those that
// it could not make.
func (sv *Service) mend(ctx context.Context, x ill, where []string, cost *copyCost) (made, left int, err error) {
	hold, err := x.snap.Hold()
	if err != nil {
		return 0, 0, nil // a newer one has taken its place
	}
	defer hold.Release()
	s, err := sv.cat.Load(x.snap.Dir)
	if err != nil {
		return 0, 0, nil
	}
	chain, err := s.Chain()
	if err != nil {
		return 0, 0, err
	}
	for _, s := range slices.Backward(chain) {
		at, there := s.Copy(x.level.Place)
		if !there || len(s.Copies()) < 2 {
			continue
		}
		lost, err := sv.lost(ctx, s, at)
		if err == nil && len(lost) > 0 {
			if err = sv.taken(); err == nil { // this head may have stood still
				err = sv.mendOne(ctx, s, at, lost, &x.level, where, cost)
			}
		}
		if err != nil {
			return made, len(lost), err
		}
		made += len(lost)
	}
	return made, 0, nil
}

// lost are the images that the place does not list, or lists with another size.
func (sv *Service) lost(ctx context.Context, s *snapshot.Snapshot, at snapshot.Copy) (lost []snapshot.Image, err error) {
	st, set, err := s.At(at)
	if err != nil {
		return nil, err
	}
	all, err := st.List(ctx, set)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	have := map[string]bool{}
	for _, info := range all {
		have[fmt.Sprint(info.Name, info.Size)] = true
	}
	for _, im := range s.Schema.Images {
		if !have[fmt.Sprint(im.File, im.Size)] {
			lost = append(lost, im)
		}
	}
	return lost, nil
}

// mendOne makes lost images again from any other copy.
func (sv *Service) mendOne(ctx context.Context, s *snapshot.Snapshot, at snapshot.Copy, lost []snapshot.Image, l *spec.Level, where []string, cost *copyCost) error {
	st, set, err := s.At(at)
	if err != nil {
		return err
	}
	var ranks []string
	for _, im := range lost {
		ranks = append(ranks, fmt.Sprint(im.Rank))
	}
	err = sv.copyImages(ctx, &copying{s: s, to: st, set: set, level: l, where: where, cost: cost}, lost)
	if err == nil && st.Shared() {
		err = st.Commit(ctx, set)
	}
	if err != nil {
		return fmt.Errorf("of ranks %s: %w", strings.Join(ranks, ", "), err)
	}
	return nil
}
