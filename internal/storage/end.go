package storage

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/spec"
)

// Ending says how a job has ended.
type Ending struct {
	GoesOn bool        // it may go on from its newest snapshot
	Now    bool        // the user does not want to wait
	GiveUp []os.Signal // signals after which nothing is waited for any more
}

// End finishes copies and removals when the head's goroutine has ended.
func (sv *Service) End(e Ending) {
	sv.endLevels(e)
	sv.endTidying()
}

// endLevels ends the copies that are being made. If the job may go on from its newest snapshot, the
// strongest level first gets that. A signal ends the wait, so a hanging store cannot hold up the
// end.
func (sv *Service) endLevels(e Ending) {
	v := &sv.levels
	if v.plan == nil || len(v.plan.Levels) == 0 {
		return
	}
	v.ending = true
	ctx, stop := context.WithCancel(context.Background())
	if len(e.GiveUp) > 0 {
		ctx, stop = signal.NotifyContext(ctx, e.GiveUp...)
	}
	defer stop()
	if e.Now {
		stop()
	}
	if !e.GoesOn {
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
	if s := sv.newest(); e.GoesOn && s != nil {
		sv.lastCopies(ctx, s)
	}
}

// lastCopies copies the newest snapshot to the strongest level that can have it: it may be in memory, which ends now.
func (sv *Service) lastCopies(ctx context.Context, s *snapshot.Snapshot) {
	for i, l := range slices.Backward(sv.opt.Levels) {
		if ctx.Err() != nil || sv.lastCopy(ctx, s, i, &l) {
			return
		}
	}
}

// ends waits until work has ended. When the context ends it waits a moment more, and gives up.
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

// lastCopy copies the newest snapshot to a level before the job ends. It reports whether the level
// has it.
func (sv *Service) lastCopy(ctx context.Context, s *snapshot.Snapshot, i int, l *spec.Level) bool {
	if now, err := sv.cat.Load(s.Dir); err == nil {
		if _, there := now.Copy(l.Place); there {
			return true
		}
	}
	if sv.levels.merged[i].state == s.Schema.Sequence {
		return true
	}
	m := sv.mergingFor(i, s)
	sv.say("level %s gets snapshot %d, %.1f MB", l.Name, s.Schema.Sequence, float64(s.Bytes())/1e6)
	work, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	over, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(over)
		_, unmerged, err := sv.bring(work, m, s, l, newCost())
		if unmerged != nil && sv.opt.Verbose {
			sv.say("level %s gets copies, and nothing merged: %v", l.Name, unmerged)
		}
		failed <- err
	}()
	err := errors.New("it was given up")
	if ends(ctx, over, giveUp) {
		err = <-failed
	}
	if err == nil {
		sv.say("level %s has snapshot %d", l.Name, s.Schema.Sequence)
		if sv.opt.Prunes() {
			if _, err := sv.pruneOld(); err != nil {
				sv.say("-keep: %v", err)
			}
		}
		return true
	}
	sv.say("the newest snapshot has less protection than asked for: level %s did not get snapshot %d, which is %s only: %v",
		l.Name, s.Schema.Sequence, spec.PlacesOf(s), sv.withRemedy(err))
	return false
}
