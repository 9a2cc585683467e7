package head

import (
	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/joblife"
	"github.com/gorun-mpi/gorun/internal/launch/spec"
	"github.com/gorun-mpi/gorun/internal/launch/wire"
	"github.com/gorun-mpi/gorun/internal/oob"
	"slices"
)

// choose finds what a restart goes on from: the newest sound snapshot of the own chain, or the start
// if no snapshot was taken. Those that are left for others come last.
func (h *head) choose(left []int) {
	chain, tried, files := h.byChoice(left), h.inc.from, h.opt.Files
	if err := h.canPlace(); err != nil {
		h.say("no restart: %v", err)
		h.short = true
		h.feed(joblife.Event{Type: joblife.EvChosen, Refused: true})
		return
	}
	go func() {
		if err := h.taken(); err != nil { // this head may have stood still
			h.post(func() {
				h.lostJob(err)
				h.feed(joblife.Event{Type: joblife.EvChosen, Refused: true})
			})
			return
		}
		var from *snapshot.Snapshot
		for _, c := range chain {
			err := h.canRead(&c.input)
			if err == nil {
				err = spec.CheckRestart(c.snap, files)
			}
			if err == nil && tried != nil && c.snap.Dir == tried.Dir && c.snap.Schema.Backend != wire.BackendSelf {
				// The incarnation that began with it took no other. Perhaps it could not read it. So
				// all of it is checked, which takes longer.
				err = c.snap.Verify(nil)
			}
			if err == nil {
				from = c.snap
				break
			}
			h.post(func() { h.say("snapshot %d cannot be used: %v", c.snap.Schema.Sequence, err) })
		}
		h.post(func() {
			ev := joblife.Event{Type: joblife.EvChosen}
			if h.next = from; from != nil {
				ev.Snapshot = from.Schema.Sequence
			} else {
				ev.Refused = len(chain) > 0 && h.opt.From != nil // its beginning is a snapshot that is damaged
				if start := beginning(nil); !ev.Refused && h.canRead(&start) != nil {
					ev.Refused = true
					h.say("the job cannot begin anew: %v", h.canRead(&start))
				}
			}
			h.feed(ev)
		})
	}()
}

// byChoice is the chain, in the order in which a restart takes what is sound.
func (h *head) byChoice(left []int) (chain []commit) {
	for _, last := range []bool{false, true} {
		for _, c := range slices.Backward(h.chain) {
			if slices.Contains(left, c.snap.Schema.Sequence) == last {
				chain = append(chain, c)
			}
		}
	}
	return chain
}

// tail tells the user what the restart has cut off an output file, and notes it for gorun snapshots
// -tails.
func (inc *incarnation) tail(m *oob.Msg) {
	h, path := inc.h, string(m.Data)
	h.say("rank %d: what was written after the checkpoint is taken out of the file and kept in %s", m.From, path)
	work(inc, func() (struct{}, error) { return struct{}{}, h.cat.AddTail(h.id, path) }, func(_ struct{}, err error) {
		if err != nil {
			h.say("gorun snapshots -tails will not list it: %v", err)
		}
	})
}
