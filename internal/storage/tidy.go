package storage

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/storage/flush"
)

// Old snapshots, and what crashes have left, are removed behind the program. A store where they are to be removed may be slow or away: no life is
// bound to that, so no restart waits for it, and the end of the job does not for long. What is left goes with a later sweep.

// tidying is the removal that is under way.
type tidying struct {
	over chan func() // gets what is done then; nil: none is under way
	next removal     // is asked for meanwhile; nil: none is
}

// removal removes something, and returns what is done then in the head's goroutine.
type removal func() (done func())

// tidy has something removed beside the head's goroutine, one after the other. Of the removals that are asked for
// meanwhile the last one is enough: all sweep.
func (sv *Service) tidy(r removal) {
	t := &sv.tidying
	if t.over != nil {
		t.next = r
		return
	}
	over := make(chan func(), 1)
	t.over = over
	go func() {
		over <- r()
		sv.post(sv.tidied)
	}()
}

// tidied takes what has become of a removal, and begins the next one.
func (sv *Service) tidied() {
	done, next := <-sv.tidying.over, sv.tidying.next
	sv.tidying = tidying{}
	done()
	if next != nil {
		sv.tidy(next)
	}
}

// tidyWithin is how long the end of a job waits for the last removals.
const tidyWithin = 10 * time.Second

// endTidying brings the removals to an end when the head's goroutine has ended, unless a store does not answer.
func (sv *Service) endTidying() {
	for limit := time.After(tidyWithin); sv.tidying.over != nil; {
		select {
		case done := <-sv.tidying.over:
			sv.tidying.over <- done
			sv.tidied()
		case <-limit:
			sv.verbose("a store does not answer: old snapshots there are removed by the next gorun that sweeps")
			return
		}
	}
}

// prune removes old snapshots, and what crashes left, after a commit.
func (sv *Service) prune() {
	sv.pruneMemory()
	switch {
	case sv.opt.Prunes():
		sv.tidy(sv.pruneNow)
	case sv.memory != nil && sv.memory.left:
		sv.tidy(sv.sweepMemory)
	}
}

// pruneNow is called beside the head's goroutine.
func (sv *Service) pruneNow() func() {
	p, err := sv.pruneOld()
	_, serr := sv.cat.Sweep(sv.id)
	err = errors.Join(err, serr)
	return func() { sv.pruned(p, err) }
}

// pruneOld removes those that -keep does not keep.
func (sv *Service) pruneOld() (snapshot.Pruned, error) {
	if sv.opt.KeepAsked {
		return sv.cat.PruneAsked(sv.id, sv.opt.KeepAt)
	}
	return sv.cat.PruneLevels(sv.id, sv.opt.KeepAt)
}

// pruned takes what has become of it.
func (sv *Service) pruned(p snapshot.Pruned, err error) {
	now := ""
	if err != nil {
		now = flush.Reason(err.Error())
	}
	if now != sv.unpruned && err != nil {
		sv.say("-keep: %v", err)
	}
	sv.unpruned = now
	if sv.memory != nil && err == nil {
		sv.memory.left = false
	}
	sv.chain = slices.DeleteFunc(sv.chain, func(c commit) bool { return slices.Contains(p.Removed, c.snap.Schema.Sequence) })
	sv.keeps()
	for _, d := range p.Dropped {
		if now, err := sv.cat.Load(filepath.Join(sv.cat.JobDir(sv.id), strconv.Itoa(d.Seq))); err == nil {
			sv.renew([]*snapshot.Snapshot{now})
		}
	}
}

// Sweep removes, behind the program, what the crash that this run goes on from has left: a snapshot that was being written or removed.
// It is no fault of this run if that cannot be done.
func (sv *Service) Sweep() { sv.tidy(sv.sweep) }

func (sv *Service) sweep() func() {
	gone, err := sv.cat.Sweep(sv.id)
	return func() {
		for _, path := range gone {
			sv.verbose("removed %s, which a crash has left", path)
		}
		if err != nil {
			sv.verbose("%v", err)
		}
	}
}

// sweepMemory removes what a node may have in memory that did not answer when that was removed.
func (sv *Service) sweepMemory() func() {
	_, err := sv.cat.Sweep(sv.id)
	return func() {
		sv.memory.left = err != nil
		if err != nil {
			sv.verbose("%v", err)
		}
	}
}
