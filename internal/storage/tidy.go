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

// Old snapshots and the remains of crashes are removed while the program runs. Their store may be
// slow or unreachable. So no restart waits for a removal, and the end of the job waits only
// briefly. A later sweep removes what is left.

// tidying is the removal that is under way.
type tidying struct {
	over chan func() // gets the function to call at its end; nil: no removal is under way
	next removal     // requested meanwhile; nil: none
}

// removal removes files, and returns a function to be called in the head's goroutine.
type removal func() (done func())

// tidy runs a removal beside the head's goroutine, one at a time. Of the removals requested
// meanwhile only the last is kept, since each sweeps everything.
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

// tidied takes the result of a removal, and begins the next one.
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

// endTidying finishes the removals when the head's goroutine has ended, unless a store does not
// answer.
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

// prune removes old snapshots, and the remains of crashes, after a commit.
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

// pruned takes the result.
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

// Sweep removes, while the program runs, what the crash before this run has left: a snapshot that
// was being written or removed. A failure does not count against this run.
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

// sweepMemory removes sets in memory of nodes that did not answer when the sets were removed.
func (sv *Service) sweepMemory() func() {
	_, err := sv.cat.Sweep(sv.id)
	return func() {
		sv.memory.left = err != nil
		if err != nil {
			sv.verbose("%v", err)
		}
	}
}
