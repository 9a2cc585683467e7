package ckpt

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// Before the gates close for a move, full images of the ranks that move go ahead while all run. The images that are
// made when all stand then hold only what has changed since:
//
//	folder     somewhere to write the images that go ahead
//	Capture    (Ahead) of those that move; they go on at once -> Written
//	HactAhead  the new agents have them at hand -> HvAhead
//
// What a rank has sent or received by then does not matter: of such an image only pages of memory
// are used, and those that have changed come again. So it needs no gate, no bookmark and no Ready.
// If it fails the move goes on without it: the images are full, and all ranks stand for longer.

// ahead is the state of the images that go ahead in an attempt.
type ahead struct {
	seq       int // of the folder; 0: there is none yet
	store     string
	path      string
	images    []oob.ImageInfo
	unwritten int
	sent      bool // to the new agents, which have not answered
}

// Slowest is the least that counts as progress when images go to other nodes, in bytes a millisecond.
const Slowest = 5 << 10

// goAhead begins with the folder: the images that go ahead have a number of their own, as a snapshot has.
func (h *Head) goAhead() {
	a := h.run
	a.ahead = &ahead{images: make([]oob.ImageInfo, h.cfg.Size), unwritten: len(a.move)}
	h.act(HeadAction{Type: HactFolder, Lasting: h.run.lasting()})
}

// aheadFolder takes the folder, and asks for the attempt's own.
func (h *Head) aheadFolder(ev *HeadEvent) {
	a := h.run
	w := a.ahead
	w.seq, w.store, w.path = ev.Seq, ev.Store, ev.Folder
	h.chain.begin(h.cfg.FullEvery) // from now on the agents note what has changed since these images
	for rank := range h.cfg.Size {
		if a.moves(rank) {
			h.captureInto(rank, oob.CaptureConfig{Store: w.store, Path: rawstring.String(path.Join(w.path, ImageName(rank))), Seq: w.seq, Ahead: true})
		}
	}
	h.act(HeadAction{Type: HactFolder, Lasting: h.run.lasting()})
}

// captureInto tells a rank, or its agent, to capture it.
func (h *Head) captureInto(rank int, cfg oob.CaptureConfig) {
	cfg.Mode, cfg.Codec = h.run.mode, h.run.codec
	data, err := json.Marshal(cfg)
	if err != nil {
		panic(err) // cannot happen: strings and numbers
	}
	h.tell(rank, oob.Msg{Kind: oob.Capture, Data: data})
}

// reportedAhead takes a report on images that go ahead.
func (h *Head) reportedAhead(rank int, m *oob.Msg) {
	a := h.run
	w := a.ahead
	switch {
	case m.Kind == oob.Failed:
		h.withoutAhead(fmt.Sprintf("rank %d: %s", rank, m.Data))
	case m.Kind == oob.Progress && !w.sent: // an agent that writes is not late
		h.again(a.millis)
	case m.Kind == oob.Written && a.moves(rank) && !a.got[rank]:
		if err := json.Unmarshal(m.Data, &w.images[rank]); err != nil {
			h.withoutAhead(fmt.Sprintf("rank %d describes its image wrongly: %v", rank, err))
			return
		}
		a.got[rank] = true
		a.n2go--
		if w.unwritten--; w.unwritten > 0 {
			h.again(a.millis)
			return
		}
		w.sent = true
		limit := a.millis
		for i := range w.images {
			limit += w.images[i].Size / Slowest
		}
		h.again(limit)
		h.act(HeadAction{Type: HactAhead, Images: w.images, Seq: w.seq})
	}
}

// again begins the limit of time again.
func (h *Head) again(millis int64) {
	h.stopTimer()
	h.startTimer(millis)
}

// arrived takes the report that the images are on the nodes where the ranks go.
func (h *Head) arrived(ev *HeadEvent) {
	a := h.run
	if a == nil || a.phase != phaseAhead || !a.ahead.sent || ev.Seq != a.ahead.seq {
		return
	}
	if ev.Err != "" {
		h.withoutAhead(ev.Err)
		return
	}
	a.base = a.ahead.seq
	h.enter(phasePlace)
}

// withoutAhead goes on with the move as if nothing had been sent ahead.
func (h *Head) withoutAhead(why string) {
	a := h.run
	if a.ahead.seq > 0 {
		h.act(HeadAction{Type: HactDiscard, Seq: a.ahead.seq})
	}
	a.ahead.seq = 0
	a.notes = append(a.notes, "no image went ahead: "+why)
	h.enter(phasePlace)
}
