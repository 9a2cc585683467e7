package ckpt

import (
	"fmt"

	"github.com/gorun-mpi/gorun/bookmarks"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

var stateNames = [...]string{"running", "preparing", "closing", "exchanging", "draining", "ready", "capturing", "captured"}

// String returns the state's name in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Rank is the protocol in one rank. It is not safe for concurrent use. The rank's driver owns it.
type Rank struct {
	rank, np    int
	incarnation uint64
	sparse      bool

	state   State
	attempt uint32 // the newest heard of
	live    bool   // attempt is not over: neither committed nor reverted
	native  bool   // the agent images this rank
	failed  bool   // we have reported a failure and wait for Revert
	target  uint64 // self: the Point to stop at, 0 before it is known
	stopped bool   // self: we stand there

	exchange *bookmarks.Exchange
	drain    *bookmarks.Drain
	senders  int // sparse: as announced, -1 before

	// Bookmarks of the attempt earlyOwner that came before this rank's gate was closed. They may come before
	// the rank has heard of the attempt.
	early      []bookmarks.Mark
	earlyOwner uint32

	out []RankAction // of the present Step
}

// NewRank returns the machine of one rank of an incarnation of a job of np ranks. If sparse, only ranks that
// have talked exchange bookmarks. All ranks of a job and its head must agree on sparse.
func NewRank(rank, np int, incarnation uint64, sparse bool) *Rank {
	return &Rank{rank: rank, np: np, incarnation: incarnation, sparse: sparse}
}

// State returns where the rank stands. It is Running once the gate has opened, even while the image is still
// being written.
func (r *Rank) State() State { return r.state }

// Attempt returns the number of the newest attempt the rank has heard of, and
// whether it still goes on here.
func (r *Rank) Attempt() (n uint32, live bool) { return r.attempt, r.live }

// Step feeds one event and returns what is to be done, in this order. The
// result belongs to the caller.
func (r *Rank) Step(ev RankEvent) []RankAction {
	r.out = nil
	if ev.Type == EvMsg {
		r.message(&ev.Msg)
	} else if r.live && ev.Attempt == r.attempt {
		r.answer(&ev)
	}
	return r.out
}

func (r *Rank) act(a RankAction) {
	a.Attempt = r.attempt
	r.out = append(r.out, a)
}

func (r *Rank) send(m oob.Msg) {
	m.From, m.Incarnation, m.Attempt = int32(r.rank), r.incarnation, r.attempt
	r.act(RankAction{Type: ActSend, Msg: m})
}

func (r *Rank) report(kind oob.Kind, a uint64) {
	r.send(oob.Msg{Kind: kind, To: oob.Head, A: a})
}

// fail tells the head, once, that the attempt cannot succeed here. It undoes nothing: the head says so to all
// ranks alike.
func (r *Rank) fail(why string) {
	if r.failed {
		return
	}
	r.failed = true
	m := oob.Msg{Kind: oob.Failed, To: oob.Head, Data: []byte(why)}
	if r.state == Preparing {
		m.A = failedPreparing
	}
	r.send(m)
}

// A of Failed. The rank has failed on the way to the Point, and the head may take a native image instead. B
// says whether this was to be expected.
const (
	failedPreparing  = 1
	nothingToPrepare = 1
)

// unable tells the head that this rank will not stop at a Point. If the gate already closes for a native image,
// it does not matter.
func (r *Rank) unable(ev *RankEvent) {
	if r.state != Preparing {
		return
	}
	r.failed = true
	r.send(oob.Msg{Kind: oob.Failed, To: oob.Head, A: failedPreparing, B: ev.N, Data: []byte(ev.Err)})
}

func (r *Rank) message(m *oob.Msg) {
	if m.Incarnation != r.incarnation || m.To != int32(r.rank) {
		return
	}
	if m.Kind == oob.Bookmark {
		r.bookmark(m)
		return
	}
	if m.From != oob.Head {
		return
	}
	switch m.Kind {
	case oob.Prepare, oob.Close:
		// Each of these may be the first message of a new attempt.
		if m.Attempt > r.attempt {
			r.begin(m)
			return
		}
	}
	if !r.live || m.Attempt != r.attempt {
		return
	}
	r.ordered(m)
}

// ordered acts on a message of the head in the present attempt. A message that does not fit the state is
// dropped, for example a duplicate.
func (r *Rank) ordered(m *oob.Msg) {
	switch m.Kind {
	case oob.Target:
		if r.state == Preparing && r.target == 0 {
			r.target = m.A
			r.act(RankAction{Type: ActRunTo, N: m.A})
		}
	case oob.Close:
		switch {
		case r.state != Preparing:
		case m.A == oob.ModeNative: // from here on Points do not matter
			r.native, r.failed = true, false
			r.close()
		case r.stopped && !r.failed:
			r.close()
		}
	case oob.Senders:
		r.announced(int(m.A))
	case oob.Capture:
		if r.state == Ready && !r.failed {
			r.state = Capturing
			r.act(RankAction{Type: ActCapture, Data: m.Data})
		}
	case oob.Open:
		if r.state == Captured || r.native && r.state == Ready {
			r.state = Running
			r.act(RankAction{Type: ActOpenGate})
		}
	case oob.Commit:
		r.committed(m.A)
	case oob.Revert:
		r.revert(m.Data)
	case oob.Ask:
		r.act(RankAction{Type: ActWhere})
	}
}

// begin enters a new attempt. The head ends one attempt before it begins the next. If the message about the end
// was lost, the beginning implies it.
func (r *Rank) begin(m *oob.Msg) {
	if r.live {
		r.revert([]byte(fmt.Sprintf("attempt %d began", m.Attempt)))
	}
	if r.state != Running {
		return // held after a committed snapshot: the job is being ended
	}
	*r = Rank{
		rank: r.rank, np: r.np, incarnation: r.incarnation, sparse: r.sparse,
		attempt: m.Attempt, live: true, senders: -1,
		early: r.early, earlyOwner: r.earlyOwner, out: r.out,
	}
	if m.Kind == oob.Prepare {
		r.state = Preparing
		r.act(RankAction{Type: ActArm, N: m.A})
		return
	}
	r.native = true
	r.close()
}

func (r *Rank) close() {
	r.state = Closing
	r.act(RankAction{Type: ActCloseGate})
}

// committed ends the attempt with a snapshot. If the gate is still closed, the job stops after this
// snapshot: no rank computes any further, and the head ends the job.
func (r *Rank) committed(seq uint64) {
	if r.state == Running || r.state == Captured || r.native && r.state == Ready {
		r.live = false
		r.act(RankAction{Type: ActCommitted, N: seq})
	}
}

// revert ends the attempt without a snapshot, from any state.
func (r *Rank) revert(why []byte) {
	switch r.state {
	case Running: // the gate is open, the image is being written
		r.act(RankAction{Type: ActDiscard})
	case Capturing, Captured:
		r.act(RankAction{Type: ActDiscard})
		r.act(RankAction{Type: ActOpenGate})
	default:
		r.act(RankAction{Type: ActOpenGate})
	}
	r.act(RankAction{Type: ActReverted, Data: why})
	r.state, r.live = Running, false
	r.exchange, r.drain = nil, nil
}

// answer takes the driver's answer to an action of the present attempt.
func (r *Rank) answer(ev *RankEvent) {
	if ev.Type == EvWhere {
		r.send(oob.Msg{Kind: oob.Where, To: oob.Head, A: uint64(r.state), B: ev.N, Data: r.where(ev.Info)})
		return
	}
	if r.failed {
		return
	}
	switch ev.Type {
	case EvFailed:
		r.fail(ev.Err)
		return
	case EvUnable:
		r.unable(ev)
		return
	}
	switch r.state {
	case Preparing:
		r.prepared(ev)
	case Closing:
		switch ev.Type {
		case EvClosed:
			r.act(RankAction{Type: ActFlush})
		case EvFlushed:
			r.flushed(ev.Sent)
		}
	case Draining, Ready:
		if ev.Type == EvProgress {
			r.progress(ev.Recv)
		}
	case Capturing:
		if ev.Type == EvCaptured {
			r.state = Captured
			r.report(oob.Captured, ev.N)
		}
	case Captured, Running:
		switch ev.Type {
		case EvWriting:
			r.report(oob.Progress, ev.Size)
		case EvWritten:
			r.send(oob.Msg{Kind: oob.Written, To: oob.Head, A: ev.Size, Data: ev.Info})
		}
	}
}

func (r *Rank) prepared(ev *RankEvent) {
	switch {
	case ev.Type == EvArmed && r.target == 0:
		r.report(oob.Points, ev.N)
	case ev.Type == EvAtPoint && r.target != 0 && !r.stopped:
		if ev.N != r.target {
			r.fail(fmt.Sprintf("stands at Point %d, not at %d", ev.N, r.target))
			return
		}
		r.stopped = true
		r.send(oob.Msg{Kind: oob.AtPoint, To: oob.Head, A: ev.N, B: ev.Size})
	}
}
