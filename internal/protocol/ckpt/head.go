package ckpt

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// HeadConfig describes the job to the head.
type HeadConfig struct {
	Size        int
	Incarnation uint64
	SparseFrom  int   // number of ranks from which the sparse schedule is used; 0: never
	PhaseMillis int64 // deadline of a waiting phase if the request names none; 0: 60 s
	AskMillis   int64 // how long late ranks have to say what they do; 0: 2 s
	AutoMillis  int64 // how long an auto attempt waits for all ranks to stop at a Point; 0: 5 s

	NativeErr string // why whole processes cannot be imaged, "" if they can; see HvNative
	Apart     bool   // images that must outlive the job, or that do not belong to a snapshot, go elsewhere than those of other attempts
	Codec     string // of the images of due Points (oob.Due)
	FullEvery int    // of so many native snapshots at least one is full; 0 or 1: all are
}

// Sparse reports whether ranks of a job of that size use the sparse schedule.
func Sparse(size, from int) bool { return from > 0 && size >= from }

// ImageName is the name of a rank's image within a snapshot's folder.
func ImageName(rank int) string { return fmt.Sprintf("rank-%05d.img", rank) }

// Head is the protocol in the head of a job. It runs one attempt at a time, and other requests wait. It is not
// safe for concurrent use.
//
// An attempt goes through these phases in order. Each but the last two has a deadline. When it passes, the late
// ranks are asked what they do, and then the attempt ends:
//
//	points      Prepare to all -> Points of all          (self and auto)
//	target      Target to all  -> AtPoint of all         (self and auto)
//	place       somewhere to write is there              (native: no gate is closed for a disk)
//	draining    Close to all, sparse: Senders -> Ready of all
//	folder      somewhere to write is there              (self); it was asked for at the beginning
//	capturing   Capture to all -> Captured of all
//	writing     Open to all    -> Written of all         (deadline moves with Progress)
//	committing  schema, rename -> Commit to all, Done
//
// An attempt for a move differs after draining, see move.go.
//
// Committing has no deadline. A late rename may or may not still happen, and the head cannot know.
// If the waiters were told that the snapshot failed, it must not turn up later.
type Head struct {
	cfg  HeadConfig
	up   bool
	end  string // why there will be no further checkpoint, "" if there may be
	dead []bool

	inFinalize []bool
	account    uint64 // sum of the accounts of their calls by ranks in Finalize
	finalizing int

	queue   []waiting // for the next attempt
	due     due
	holds   []hold // by rank
	orders  [holders]order
	paused  bool     // no deadline of an attempt counts
	last    bool     // the job's last snapshot is committed: the ranks are about to end where they stand
	attempt uint32   // number of the newest
	run     *attempt // nil: none
	timer   uint64   // id of the newest
	dests   *DestSum
	chain   chain

	out []HeadAction // of the present Step
}

// NewHead returns the machine of one incarnation of a job.
func NewHead(cfg HeadConfig) *Head {
	if cfg.PhaseMillis == 0 {
		cfg.PhaseMillis = 60_000
	}
	if cfg.AskMillis == 0 {
		cfg.AskMillis = 2_000
	}
	if cfg.AutoMillis == 0 {
		cfg.AutoMillis = 5_000
	}
	return &Head{cfg: cfg, dead: make([]bool, cfg.Size), inFinalize: make([]bool, cfg.Size),
		holds: make([]hold, cfg.Size),
		dests: NewDestSum(cfg.Size)}
}

// Busy reports whether an attempt is running, write-behind included.
func (h *Head) Busy() bool { return h.run != nil }

// Step feeds one event and returns what is to be done, in this order. The
// result belongs to the caller.
func (h *Head) Step(ev HeadEvent) []HeadAction {
	h.out = nil
	switch ev.Type {
	case HvMsg:
		h.message(&ev.Msg)
	case HvRequest:
		h.request(ev.Request)
	case HvAllUp:
		h.up = true
	case HvNative:
		h.cfg.NativeErr = ev.Err
	case HvDied:
		h.died(ev.Rank, ev.Err)
	case HvTimeout:
		switch {
		case ev.Timer == 0:
		case h.run != nil && ev.Timer == h.run.timer:
			h.timeout()
		default:
			h.impatient(ev.Timer)
		}
	case HvHold, HvRelease:
		h.ordered(&ev)
	case HvPause, HvGoOn:
		h.pause(ev.Type == HvPause)
	case HvFolder, HvFolderFailed:
		h.folder(&ev)
	case HvMoveFailed:
		h.moveFailed(ev.Err)
	case HvAhead:
		h.arrived(&ev)
	case HvCommitted, HvCommitFailed:
		if h.run != nil && h.run.phase == phaseCommitting {
			h.committed(&ev)
		}
	}
	h.next()
	h.pass()
	h.grant()
	h.watch()
	return h.out
}

func (h *Head) act(a HeadAction) { h.out = append(h.out, a) }

// tell sends to one rank, unless it is gone.
func (h *Head) tell(rank int, m oob.Msg) {
	if h.dead[rank] {
		return
	}
	m.From, m.To, m.Incarnation = oob.Head, int32(rank), h.cfg.Incarnation
	if h.run != nil {
		m.Attempt = h.run.n
	}
	h.act(HeadAction{Type: HactSend, Msg: m})
}

func (h *Head) tellAll(m oob.Msg) {
	for rank := range h.cfg.Size {
		h.tell(rank, m)
	}
}

func (h *Head) done(r waiting, d Done) {
	h.unwatch(&r)
	d.ID = r.ID
	h.act(HeadAction{Type: HactDone, Done: d})
}

// request joins the running attempt if the ranks are not captured yet and the attempt does what is asked.
// Otherwise it waits for the next one.
func (h *Head) request(req Request) {
	r := waiting{Request: req}
	if h.end != "" {
		h.done(r, Done{Err: h.end})
		return
	}
	if r.Mode < oob.ModeSelf || r.Mode > oob.ModeAuto {
		h.done(r, Done{Err: fmt.Sprintf("there is no checkpoint mode %d", r.Mode)})
		return
	}
	if err := h.cannotMove(req); err != "" {
		h.done(r, Done{Err: err})
		return
	}
	h.begins(&r)
	if a := h.run; a != nil && a.phase < phaseCapturing && a.fits(req) {
		a.add(r, h.cfg.PhaseMillis)
		return
	}
	h.queue = append(h.queue, r)
	if h.Held() != "" {
		h.tellHeld()
	}
}

// next releases the ranks from Finalize or begins the next attempt. It is called when no attempt is running.
func (h *Head) next() {
	for h.run == nil && h.end == "" && h.up {
		switch {
		case h.finalizing == h.cfg.Size:
			h.tellAll(oob.Msg{Kind: oob.FinalizeGo, A: h.account})
			h.act(HeadAction{Type: HactFinalized})
			h.close("the job is ending: all ranks have entered Finalize")
		case len(h.queue) > 0 && h.Held() == "":
			h.begin()
		default:
			return
		}
	}
}

// close refuses waiting and future requests.
func (h *Head) close(why string) {
	h.end = why
	for _, r := range h.queue {
		h.done(r, Done{Err: why})
	}
	h.queue = nil
}

// died ends the attempt, because the job ends. If all images are written, the attempt goes on: a snapshot is
// now worth more than ever.
func (h *Head) died(rank int, why string) {
	if rank < 0 || rank >= h.cfg.Size || h.dead[rank] {
		return
	}
	h.dead[rank], h.holds[rank] = true, hold{}
	text := fmt.Sprintf("rank %d has died", rank)
	if why != "" {
		text += ": " + why
	}
	if h.run != nil && h.run.phase != phaseCommitting {
		h.fail(text)
	}
	if h.end == "" {
		h.close(text)
	}
}

func (h *Head) message(m *oob.Msg) {
	if m.Incarnation != h.cfg.Incarnation {
		return
	}
	rank := int(m.From)
	if m.Kind != oob.Dests && (rank < 0 || rank >= h.cfg.Size || h.dead[rank]) {
		return
	}
	switch m.Kind {
	case oob.FinalizeWant:
		h.holds[rank] = hold{}
		h.wantsFinalize(rank, m.A)
		return
	case oob.Hold, oob.Release:
		h.holding(rank, m)
		return
	case oob.Due:
		h.isDue(rank, m.A)
		return
	}
	if h.run != nil && m.Attempt == h.run.n {
		h.reported(rank, m)
	}
}

func (h *Head) wantsFinalize(rank int, account uint64) {
	if h.inFinalize[rank] {
		return
	}
	h.inFinalize[rank] = true
	h.account += account
	h.finalizing++
	if a := h.run; a != nil && (a.phase == phasePoints || a.phase == phaseTarget && !a.got[rank]) {
		h.pointless(finalizeText(rank))
	}
}

func finalizeText(rank int) string { return fmt.Sprintf("rank %d has entered Finalize", rank) }
