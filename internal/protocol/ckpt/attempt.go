package ckpt

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

type phase uint8

const (
	phasePoints phase = iota
	phaseTarget
	phaseAhead
	phasePlace
	phaseDraining
	phaseFolder
	phaseCapturing
	phaseWriting
	phaseCommitting
	phaseMoved
)

// attempt is the running attempt of the head.
type attempt struct {
	n        uint32
	requests []waiting
	wanted   uint64 // as asked for
	mode     uint64 // oob.ModeSelf or ModeNative: the kind of images, as far as it is known
	codec    string
	base     int      // native: the snapshot to build on, or the images that went ahead; 0: none
	notes    []string // for Done
	stop     bool
	apart    bool         // only requests of the same kind share it, see lasting
	move     map[int]bool // the ranks that move; nil: none do, it is a snapshot
	ahead    *ahead       // nil: nothing goes ahead
	millis   int64

	phase phase
	got   []bool // by rank: has finished the phase
	n2go  int    // how many have not
	point uint64 // largest count, then the Point all stop at

	folder    bool // HactFolder was answered
	store     string
	path      string
	seq       int
	images    []oob.ImageInfo
	written   []bool // apart from got: an image may be durable before others are captured
	unwritten int
	size      []uint64 // that the images will hold, by rank
	total     uint64   // of size
	bytes     []uint64 // written so far, by rank
	sum       uint64   // of bytes

	timer uint64 // armed; 0: none
	left  int64  // milliseconds to be given when deadlines count again
	asked bool
	where map[int]whereabouts
}

// whereabouts is a late rank's answer to Ask.
type whereabouts struct {
	state State
	waits bool // for other ranks, in the library
	text  string
}

// lasting reports whether the images must outlive the job, or are no snapshot's.
func (a *attempt) lasting() bool { return a.apart && (a.stop || a.move != nil) }

func (a *attempt) add(r waiting, deadline int64) {
	a.requests = append(a.requests, r)
	a.stop = a.stop || r.Stop
	if r.Timeout > 0 {
		deadline = r.Timeout
	}
	a.millis = max(a.millis, deadline)
}

// begin starts an attempt for the oldest request, and for all others that fit it.
func (h *Head) begin() {
	first := h.queue[0]
	mode, note, err := h.decide(first.Request)
	if err != "" {
		h.queue = h.queue[1:]
		h.done(first, Done{Err: err, Mode: mode})
		return
	}
	h.attempt++
	a := &attempt{
		n: h.attempt, stop: first.Stop, apart: h.cfg.Apart, wanted: first.Mode, mode: mode, codec: first.Codec, notes: note, move: moving(first.Request),
		images: make([]oob.ImageInfo, h.cfg.Size), written: make([]bool, h.cfg.Size),
		size: make([]uint64, h.cfg.Size), bytes: make([]uint64, h.cfg.Size),
	}
	a.unwritten = a.movers(h.cfg.Size)
	h.run = a
	if a.move != nil { // it is alone
		a.add(first, h.cfg.PhaseMillis)
		h.queue = h.queue[1:]
	}
	h.join()
	if a.move != nil && !first.direct {
		h.goAhead()
		h.enter(phaseAhead)
		return
	}
	// The folder is asked for now, so that no rank waits for a disk with its gate closed.
	h.act(HeadAction{Type: HactFolder, Lasting: a.lasting()})
	if a.mode == oob.ModeSelf {
		h.enter(phasePoints)
	} else {
		h.enter(phasePlace)
	}
}

// enter begins a phase: it gives the ranks their order and sets the deadline.
func (h *Head) enter(p phase) {
	a := h.run
	a.phase, a.got, a.n2go = p, make([]bool, h.cfg.Size), h.cfg.Size
	goesOn := p == phaseTarget && h.trying() // one limit for both phases
	if !goesOn {
		h.stopTimer()
	}
	a.asked, a.where = false, nil
	switch p {
	case phasePoints:
		h.tellAll(oob.Msg{Kind: oob.Prepare, A: h.firstChoice()})
	case phaseTarget:
		h.tellAll(oob.Msg{Kind: oob.Target, A: a.point})
	case phaseAhead:
		a.exempt()
	case phasePlace:
		if a.folder || a.mode == oob.ModeSelf {
			h.enter(phaseDraining)
			return
		}
	case phaseDraining:
		h.join()
		for i := range a.requests {
			if w := &a.requests[i]; !w.limited() {
				h.unwatch(w)
			}
		}
		h.tellAll(oob.Msg{Kind: oob.Close, A: a.mode})
	case phaseFolder:
		if a.folder {
			h.enter(phaseCapturing)
			return
		}
	case phaseCapturing:
		a.exempt()
		h.capture()
	case phaseWriting:
		if !a.stop && a.move == nil {
			h.tellAll(oob.Msg{Kind: oob.Open})
		}
		for rank, written := range a.written {
			a.got[rank] = written || !a.moves(rank)
		}
		a.n2go = a.unwritten
		if a.n2go == 0 {
			h.enter(a.last())
			return
		}
	case phaseMoved:
		h.moved()
		h.progress()
		return
	case phaseCommitting:
		h.act(HeadAction{Type: HactCommit, Images: a.images, Seq: a.seq, Mode: a.mode})
		h.progress()
		return
	}
	if !goesOn {
		h.startTimer(h.limit())
	}
	h.progress()
}

// last is the phase in which all images are written.
func (a *attempt) last() phase {
	if a.move != nil {
		return phaseMoved
	}
	return phaseCommitting
}

// limit is the deadline of the present phase in milliseconds.
func (h *Head) limit() int64 {
	if h.trying() {
		return min(h.cfg.AutoMillis, h.run.millis/2) // leave time for the other kind
	}
	return h.run.millis
}

func (h *Head) capture() {
	a := h.run
	if a.mode == oob.ModeNative {
		base := h.chain.begin(h.cfg.FullEvery)
		if a.move == nil { // the node where a rank moves has nothing of the chain
			a.base = base
		}
	}
	for rank := range h.cfg.Size {
		if a.moves(rank) {
			h.captureInto(rank, oob.CaptureConfig{
				Store: a.store, Path: rawstring.String(path.Join(a.path, ImageName(rank))), Seq: a.seq, Hold: a.stop || a.move != nil, Base: a.base, Move: a.move != nil})
		}
	}
}

// reported takes a message of the running attempt
func (h *Head) reported(rank int, m *oob.Msg) {
	a := h.run
	if a.phase == phaseAhead {
		h.reportedAhead(rank, m)
		return
	}
	switch m.Kind {
	case oob.Points:
		if a.phase == phasePoints {
			a.point = max(a.point, m.A+1)
			h.finished(rank)
		}
	case oob.AtPoint:
		if a.phase == phaseTarget && m.A == a.point {
			h.finished(rank)
		}
	case oob.Dests:
		if a.phase == phaseDraining && Sparse(h.cfg.Size, h.cfg.SparseFrom) {
			h.summed(m)
		}
	case oob.Ready:
		if a.phase == phaseDraining {
			h.finished(rank)
		}
	case oob.Captured:
		if a.phase == phaseCapturing && !a.got[rank] {
			a.size[rank] = m.A
			a.total += m.A
			h.finished(rank)
		}
	case oob.Progress:
		h.wrote(rank, m.A)
	case oob.Written:
		h.imaged(rank, m)
	case oob.Failed:
		h.failed(rank, m)
	case oob.Where:
		if a.asked {
			a.where[rank] = whereabouts{State(m.A), m.B == 1, string(m.Data)}
			if h.trying() && a.heard() {
				h.fallBack(h.lateText())
			}
		}
	}
}

// finished notes that the rank has finished the phase. The last rank ends the phase.
func (h *Head) finished(rank int) {
	a := h.run
	if a.got[rank] {
		return
	}
	a.got[rank] = true
	a.n2go--
	if a.n2go > 0 {
		h.progress()
		return
	}
	if a.phase == phaseWriting {
		h.enter(a.last())
		return
	}
	switch a.phase {
	case phaseTarget:
		h.enter(phasePlace)
	default:
		h.enter(a.phase + 1)
	}
}

// summed takes Dests. When those of all ranks have come, it tells each rank its number of senders.
func (h *Head) summed(m *oob.Msg) {
	_, done, err := h.dests.Add(*m)
	if err != nil {
		h.fail(err.Error())
		return
	}
	if done {
		for rank := range h.cfg.Size {
			h.tell(rank, oob.Msg{Kind: oob.Senders, A: h.dests.Senders(rank)})
		}
	}
}

// folder takes the answer to HactFolder. An attempt may get a folder that an earlier attempt has
// asked for, and can use it. A folder that is not needed any more is given back.
func (h *Head) folder(ev *HeadEvent) {
	a := h.run
	wanted := a != nil && !a.folder && ev.Lasting == a.lasting() && !(ev.Type == HvFolder && a.ahead != nil && ev.Seq < a.ahead.seq) // images build on lower numbers only
	switch {
	case ev.Type == HvFolder && wanted && a.phase == phaseAhead && a.ahead.seq == 0:
		h.aheadFolder(ev)
	case ev.Type == HvFolder && wanted:
		a.folder, a.store, a.path, a.seq = true, ev.Store, ev.Folder, ev.Seq
		if a.phase == phasePlace || a.phase == phaseFolder {
			h.enter(a.phase + 1)
		}
	case ev.Type == HvFolder:
		h.act(HeadAction{Type: HactDiscard, Seq: ev.Seq})
	case wanted:
		h.fail("no folder for the snapshot: " + ev.Err)
	}
}

// wrote records how far a rank's image is. A rank that writes is not late.
func (h *Head) wrote(rank int, bytes uint64) {
	a := h.run
	if a.phase != phaseCapturing && a.phase != phaseWriting || a.written[rank] || bytes <= a.bytes[rank] {
		return
	}
	a.count(rank, bytes)
	if a.phase == phaseWriting {
		a.asked, a.where = false, nil
		h.stopTimer()
		h.startTimer(a.millis)
	}
	h.progress()
}

func (a *attempt) count(rank int, bytes uint64) {
	a.sum += bytes - a.bytes[rank]
	a.bytes[rank] = bytes
}

func (h *Head) imaged(rank int, m *oob.Msg) {
	a := h.run
	if a.phase != phaseCapturing && a.phase != phaseWriting || a.written[rank] {
		return
	}
	if a.phase == phaseCapturing && !a.got[rank] {
		return // a rank says Captured first
	}
	if err := json.Unmarshal(m.Data, &a.images[rank]); err != nil {
		h.fail(fmt.Sprintf("rank %d describes its image wrongly: %v", rank, err))
		return
	}
	a.written[rank] = true
	a.unwritten--
	a.count(rank, a.size[rank]) // a compressed image may be smaller: count it as written completely
	if a.phase == phaseWriting {
		h.finished(rank)
	}
}

func (h *Head) committed(ev *HeadEvent) {
	a := h.run
	if ev.Type == HvCommitFailed {
		h.fail("the snapshot could not be committed: " + ev.Err)
		return
	}
	h.tellAll(oob.Msg{Kind: oob.Commit, A: uint64(a.seq)})
	h.run, h.last = nil, a.stop
	d := a.outcome()
	if a.mode == oob.ModeNative {
		h.chain.committed(a.seq, d.Base)
	}
	for _, r := range a.requests {
		h.done(r, d)
	}
	if a.stop && h.end == "" {
		h.close("the job ends with its last checkpoint")
	}
}

// fail ends the running attempt without a snapshot. The job goes on. Earlier snapshots are not touched.
func (h *Head) fail(why string) {
	a := h.run
	h.drop(why)
	for _, r := range a.requests {
		h.done(r, Done{Err: why, Mode: a.mode})
	}
}

// drop takes the ranks back from the running attempt. Its requests are the caller's.
func (h *Head) drop(why string) {
	a := h.run
	h.stopTimer()
	h.tellAll(oob.Msg{Kind: oob.Revert, Data: []byte(why)})
	h.run = nil
	if a.ahead != nil && a.ahead.seq > 0 {
		h.act(HeadAction{Type: HactDiscard, Seq: a.ahead.seq})
	}
	if a.folder {
		h.act(HeadAction{Type: HactDiscard, Seq: a.seq})
	}
}
