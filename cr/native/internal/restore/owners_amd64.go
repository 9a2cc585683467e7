package restore

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gorun-mpi/gorun/cr/native/internal/pages"
	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
)

// Locks of glibc that tell their owner by its id (recursive, error-checking, robust and
// priority mutexes, locks for reading and writing) name the old one when the threads have
// new ids. They are found by their shape as memory is filled, and given the new id.
//
// That is a guess, and only what is done where the ids cannot be had again: data may look
// like a lock, and of a lock that a thread is just taking, robust or with priorities, the id is
// in a register as well.

// leastID is below which ids are too common among other numbers to tell a lock by.
const leastID = 300

// owners mends locks.
type owners struct {
	ids       map[uint32]uint32 // new by old; nil: nothing is to be mended
	least, to uint32            // the old ones lie from least up to least+to

	mu    sync.Mutex
	found []mended
	edges []uint64 // where pieces end, across which locks may lie
}

// mended is a word that is to be written.
type mended struct {
	at    uint64
	value uint32
}

// newOwners prepares the mending, if the threads have other ids than they had.
func (r *restore) newOwners() (*owners, error) {
	o := &owners{}
	if r.place != nil || runtimes.Of(r.program).C == nil {
		return o, nil
	}
	ids := map[uint32]uint32{}
	for i, tid := range r.tids {
		old := r.state.Threads[i].TID
		if old < leastID {
			return nil, fmt.Errorf("%w: thread id %d is too small to be told from other numbers in memory, where locks name their owner by it", runtimes.ErrLibC, old)
		}
		ids[uint32(old)] = uint32(tid)
	}
	o.ids = ids
	o.least = slices.Min(slices.Collect(maps.Keys(ids)))
	o.to = slices.Max(slices.Collect(maps.Keys(ids))) - o.least
	return o, nil
}

// look finds locks in what is written at addr.
func (o *owners) look(p []byte, addr uint64) {
	if o == nil || o.ids == nil {
		return
	}
	var found []mended
	for at := 0; at+runtimes.LockSize <= len(p); at += 8 {
		found = o.lockAt(p[at:], addr+uint64(at), found)
	}
	o.mu.Lock()
	o.found = append(o.found, found...)
	o.edges = append(o.edges, addr+uint64(len(p)))
	o.mu.Unlock()
}

// lockAt notes the words of a lock that begins with p.
func (o *owners) lockAt(p []byte, addr uint64, found []mended) []mended {
	for _, off := range runtimes.OwnerOffsets {
		old := le.Uint32(p[off:])
		if old-o.least > o.to {
			continue
		}
		now, ok := o.ids[old]
		if !ok {
			continue
		}
		for _, w := range runtimes.LockWords(p, off) {
			v := now | le.Uint32(p[w:])&^runtimes.OwnerMask
			if w == off {
				v = now
			}
			found = append(found, mended{addr + uint64(w), v})
		}
	}
	return found
}

// mendOwners writes what was found, and looks for locks across the edges of pieces.
func (r *restore) mendOwners() error {
	o := r.owners
	if o == nil || o.ids == nil {
		return nil
	}
	const margin = runtimes.LockSize - 8
	for _, edge := range o.edges {
		var p [2 * margin]byte
		if edge < pages.Lowest+margin || r.puppet.mem.Peek(p[:], edge-margin) != nil {
			continue // nothing is behind it
		}
		for at := 8; at < margin; at += 8 {
			var q [runtimes.LockSize]byte
			copy(q[:], p[at:])
			o.found = o.lockAt(q[:], edge-margin+uint64(at), o.found)
		}
	}
	for _, m := range o.found {
		if err := r.puppet.mem.Poke(le.AppendUint32(nil, m.value), m.at); err != nil {
			return err
		}
	}
	r.unusual = append(r.unusual, fmt.Sprintf("its %d threads have new ids, which were put into the C library's notes of them, and into %d places that look like locks they hold; robust locks and those with priorities may fail", len(r.tids), len(o.found)))
	if r.noPlace != nil {
		r.unusual = append(r.unusual, fmt.Sprintf("the ids that it had are not to be had here: %v", r.noPlace))
	}
	return nil
}
