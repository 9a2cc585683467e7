package head

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/standstill"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
)

// watchStandstill begins to look for ranks that wait for each other without end (-deadlock), until
// stop is called. A rank answers from what its engine knows anyway, and only one that has waited
// that long looks further. So a job that makes progress pays only for a short message to each rank
// now and then.
func (h *head) watchStandstill() (stop func()) {
	if h.opt.Deadlock < 0 {
		return func() {}
	}
	t := time.NewTicker(max(h.opt.Deadlock/2, time.Millisecond))
	go h.tick(t.C, h.seekStandstill)
	return t.Stop
}

// seekStandstill asks all ranks, if only the ranks themselves can be keeping each other from
// progress.
func (h *head) seekStandstill() {
	calm := func() bool {
		return h.inc != nil && h.job.Steady() && h.job.AllSpawned() && !h.job.Busy() && !h.job.Suspended() && h.trims == 0
	}
	if h.seeking || !calm() {
		return
	}
	h.seeking = true
	inc := h.inc
	since := binary.LittleEndian.AppendUint64(nil, uint64(h.opt.Deadlock))
	h.lookWith(oob.LookStill, since, h.everybody(), func(infos []*waitreport.Info) {
		h.seeking = false
		if inc == h.inc && calm() {
			h.tellStandstill(infos)
		}
	})
}

// tellStandstill tells the user of a standstill, once.
func (h *head) tellStandstill(infos []*waitreport.Info) {
	ranks := make([]standstill.Rank, len(infos))
	for i, in := range infos {
		ranks[i] = rankOf(in)
	}
	lines := standstill.Report(ranks)
	text := strings.Join(lines, "\n")
	if text == "" || text == h.stood {
		return
	}
	h.stood = text
	h.say("deadlock: for %v nothing has moved among ranks that wait for each other, and nothing can:", h.opt.Deadlock)
	for i, line := range lines {
		if i == mostWaits {
			h.say("  ... and %d more", len(lines)-i)
			break
		}
		h.say("  %s", line)
	}
	h.say("the job goes on waiting; gorun stacks %s tells more, gorun kill %s ends it (-deadlock off: not a word of this)", h.id, h.id)
}

// rankOf is a rank's answer as package standstill needs it.
func rankOf(in *waitreport.Info) standstill.Rank {
	if in == nil || !in.Still {
		return standstill.Rank{Moves: true}
	}
	r := standstill.Rank{Ended: in.Ended}
	for i := range in.Waits {
		w := &in.Waits[i]
		if len(w.Needs) == 0 && !w.Any && !w.Free {
			if in.Ended && w.What == "" {
				continue // the call of Finalize itself
			}
			return standstill.Rank{Moves: true} // it is not known what it waits for
		}
		r.Waits = append(r.Waits, standstill.Wait{Needs: w.Needs, Any: w.Any, Free: w.Free, Text: placeOf(w)})
	}
	return r
}

// placeOf says where the program waits, and for what.
func placeOf(w *waitreport.Wait) string {
	switch {
	case w.Site == "":
		return "in " + w.What
	case strings.HasPrefix(strings.ToLower(w.What), strings.ToLower(strings.TrimPrefix(w.Call, "mpi."))+"("):
		return fmt.Sprintf("at %s in %s", w.Site, w.What)
	}
	return fmt.Sprintf("at %s in %s: %s", w.Site, w.Call, w.What)
}
