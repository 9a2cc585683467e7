package head

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/flush"
)

// Old snapshots, and what crashes have left, are removed behind the program. A store where they are to be removed may be slow or away: no life is
// bound to that, so no restart waits for it, and the end of the job does not for long. What is left goes with a later sweep.

// tidying is the removal that is under way; the loop's.
type tidying struct {
	over chan func() // gets what is done then; nil: none is under way
	next removal     // is asked for meanwhile; nil: none is
}

// removal removes something, and returns what the loop does then.
type removal func() (done func())

// tidy has something removed beside the loop, one after the other. Of those that are asked for meanwhile the last one is enough: all sweep.
func (h *head) tidy(r removal) {
	t := &h.tidying
	if t.over != nil {
		t.next = r
		return
	}
	over := make(chan func(), 1)
	t.over = over
	go func() {
		over <- r()
		h.post(h.tidied)
	}()
}

// tidied takes what has become of a removal, and begins the next one.
func (h *head) tidied() {
	done, next := <-h.tidying.over, h.tidying.next
	h.tidying = tidying{}
	done()
	if next != nil {
		h.tidy(next)
	}
}

// tidyWithin is how long the end of a job waits for the last removals.
const tidyWithin = 10 * time.Second

// endTidying brings the removals to an end when the loop has ended, unless a store does not answer.
func (h *head) endTidying() {
	for limit := time.After(tidyWithin); h.tidying.over != nil; {
		select {
		case done := <-h.tidying.over:
			h.tidying.over <- done
			h.tidied()
		case <-limit:
			h.verbose("a store does not answer: old snapshots there are removed by the next gorun that sweeps")
			return
		}
	}
}

// prune removes old snapshots, and what crashes left, after a commit.
func (inc *incarnation) prune() {
	h := inc.h
	inc.pruneMemory()
	switch {
	case h.opt.Prunes():
		h.tidy(h.pruneNow)
	case h.memory != nil && h.memory.left:
		h.tidy(h.sweepMemory)
	}
}

// pruneNow is called beside the loop.
func (h *head) pruneNow() func() {
	p, err := h.pruneOld()
	_, serr := h.cat.Sweep(h.id)
	err = errors.Join(err, serr)
	return func() { h.pruned(p, err) }
}

// pruneOld removes those that -keep does not keep.
func (h *head) pruneOld() (snapshot.Pruned, error) {
	if h.opt.KeepAsked {
		return h.cat.PruneAsked(h.id, h.opt.KeepAt)
	}
	return h.cat.PruneLevels(h.id, h.opt.KeepAt)
}

// pruned takes what has become of it.
func (h *head) pruned(p snapshot.Pruned, err error) {
	now := ""
	if err != nil {
		now = flush.Reason(err.Error())
	}
	if now != h.unpruned && err != nil {
		h.say("-keep: %v", err)
	}
	h.unpruned = now
	if h.memory != nil && err == nil {
		h.memory.left = false
	}
	h.chain = slices.DeleteFunc(h.chain, func(c commit) bool { return slices.Contains(p.Removed, c.snap.Schema.Sequence) })
	h.keepInput()
	for _, d := range p.Dropped {
		if now, err := h.cat.Load(filepath.Join(h.cat.JobDir(h.id), strconv.Itoa(d.Seq))); err == nil {
			h.renew([]*snapshot.Snapshot{now})
		}
	}
}

// sweep removes what the crash that this run goes on from has left: a snapshot that was being written or removed.
// It is no fault of this run if that cannot be done.
func (h *head) sweep() func() {
	gone, err := h.cat.Sweep(h.id)
	return func() {
		for _, path := range gone {
			h.verbose("removed %s, which a crash has left", path)
		}
		if err != nil {
			h.verbose("%v", err)
		}
	}
}

// sweepMemory removes what a node may have in memory that did not answer when that was removed.
func (h *head) sweepMemory() func() {
	_, err := h.cat.Sweep(h.id)
	return func() {
		h.memory.left = err != nil
		if err != nil {
			h.verbose("%v", err)
		}
	}
}
