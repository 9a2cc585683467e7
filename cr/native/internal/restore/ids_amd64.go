package restore

import (
	"fmt"

	"github.com/gorun-mpi/gorun/cr/native/internal/runtimes"
	"github.com/gorun-mpi/gorun/cr/native/internal/trace"
)

// Where threads get new ids, what the run-times note of them is mended in the memory of
// the image.

// mendIDs replaces the old thread ids in the run-times' memory.
func (r *restore) mendIDs() error {
	threads := make([]runtimes.Thread, len(r.tids))
	for i := range r.tids {
		t := &r.state.Threads[i]
		regs, err := trace.RegsOf(t.Regs)
		if err != nil {
			return err
		}
		threads[i] = runtimes.Thread{TID: t.TID, FS: regs.Fs_base, Tidy: t.Tidy}
	}
	known := runtimes.Of(r.program)
	if known.Go != nil {
		var err error
		if r.ofGo, err = known.Go.Notes(r.puppet.mem, threads); err != nil {
			return err
		}
	}
	if r.place != nil {
		return nil
	}
	if err := r.renumberAt(r.ofGo, 8); err != nil || known.C == nil {
		return err
	}
	notes, err := known.C.Notes(r.puppet.mem, threads)
	if err != nil {
		return fmt.Errorf("%w (its threads need the ids that they had)", err)
	}
	if err := r.renumberAt(notes, 4); err != nil {
		return err
	}
	return r.mendOwners()
}

// renumberAt writes the new ids, of size bytes, where the run-time notes them.
func (r *restore) renumberAt(notes []uint64, size int) error {
	for i, at := range notes {
		if at == 0 {
			continue
		}
		if err := r.puppet.mem.Poke(le.AppendUint64(nil, uint64(r.tids[i]))[:size], at); err != nil {
			return err
		}
	}
	return nil
}
