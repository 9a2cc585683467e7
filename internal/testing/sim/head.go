package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// head is one run of gorun: the shipped machine of a job's life, and a driver
// with a clock, agents and a storage that take their time.
type head struct {
	job     *joblife.Job
	events  []joblife.Event
	feeding bool
	clocks  []clock
	todo    []task
	asked   map[uint64]request // not answered
	base    int                // incarnations begun before this job
	lives   [][]*node          // agents
	nodes   []*node            // of the present life
	from    []*image           // what the next life begins from
	whole   bool               // they are of whole processes

	last    int    // sequence number being committed
	works   int    // of the storage
	final   bool   // the ranks were released from Finalize
	attempt uint32 // whose cut must hold: from Prepare or Close to Open or Revert

	stopping  int // the last snapshot of the job, with which it is to end
	verdicts  int
	verdict   joblife.Verdict
	killed    map[int]bool      // ranks that have died of themselves, in this life
	cut       bool              // an agent was lost, in this life
	told      bool              // a user has ended the job
	ended     bool              // gorun is about to be gone
	moving    map[uint64]travel // wishes that were not answered
	voyage    *voyage           // the move under way
	orphans   map[int]bool      // ranks whose old process has died of itself, in this life
	reverting bool              // a move of this life has been given up after its switch
	took      bool              // it has taken the place of another, which may live
	waits     int64             // until then, by its clock, for what that one has started; 0: it does not
}

// clock is a timer, due in head time: steps in which the job was not being imaged.
type clock struct {
	id  uint64
	due int64
}

// task is something that the head's driver has begun.
type task struct {
	at int64
	do func()
}

// launch is a user who runs gorun: afresh, or to restart from images; perhaps while the
// head before is still there, or what it has started (took).
func (w *world) launch(images []*image, whole, took bool) {
	p := w.plan
	cfg := joblife.Config{Size: w.np, Restarts: w.rng.IntN(4), Built: true, Stopped: 75, CutMillis: cutAfter, LikelyMillis: 150_000, ConsequenceMillis: 300_000}
	cfg.Ckpt = ckpt.HeadConfig{AutoMillis: p.auto, FullEvery: p.fullEvery, Apart: p.memory != nil,
		PhaseMillis: 200_000 + 20_000*int64(w.np), AskMillis: 2_000 + 2_000*int64(w.np)}
	if p.sparse {
		cfg.Ckpt.SparseFrom = 1
	}
	if p.hurry {
		cfg.Ckpt.PhaseMillis, cfg.Ckpt.AskMillis = 1+w.rng.Int64N(1500*int64(w.np)), 1+w.rng.Int64N(500)
	} else if p.fault != noFault {
		cfg.Ckpt.PhaseMillis, cfg.Ckpt.AskMillis = 4_000*int64(w.np), 1_000
	}
	if w.breaks(causeNotAwaited) {
		cfg.LikelyMillis, cfg.ConsequenceMillis = 1, 1
	}
	w.head = &head{job: joblife.New(cfg), asked: make(map[uint64]request), moving: make(map[uint64]travel), base: w.started, from: images, whole: whole}
	if !took || len(w.machines) == 0 {
		w.headStarts()
		return
	}
	w.head.took, w.head.waits = true, w.headNow()+1
	if !w.breaks(takenTooSoon) {
		w.head.waits = w.headNow() + terms.Fence().Milliseconds()
	}
}

// headStarts lets the head begin, on the machines that answer.
func (w *world) headStarts() {
	w.head.waits = 0
	w.keepers()
	w.feed(joblife.Event{Type: joblife.EvStart})
}

func (w *world) later(steps int, do func()) {
	w.head.todo = append(w.head.todo, task{w.now + 1 + w.rng.Int64N(int64(steps)), do})
}

// headTurn does what is due at the head.
func (w *world) headTurn() {
	h := w.head
	if h.waits > 0 && w.headNow() >= h.waits {
		w.headStarts()
		return
	}
	for i, t := range h.todo {
		if t.at <= w.now {
			h.todo = slices.Delete(h.todo, i, i+1)
			t.do()
			return
		}
	}
	for i, c := range h.clocks {
		if w.now-w.frozen >= c.due {
			h.clocks = slices.Delete(h.clocks, i, i+1)
			w.logf("head: timer %d runs out", c.id)
			w.feed(joblife.Event{Type: joblife.EvTimeout, Timer: c.id})
			return
		}
	}
}

// life is the number of the present life, for events.
func (w *world) life() int { return w.started - w.head.base }

// feed feeds the machine; what is fed meanwhile comes after its actions.
func (w *world) feed(ev joblife.Event) {
	h := w.head
	h.events = append(h.events, ev)
	if h.feeding {
		return
	}
	h.feeding = true
	for len(h.events) > 0 {
		ev := h.events[0]
		h.events = h.events[1:]
		for _, a := range h.job.Step(ev) {
			w.headDo(&a)
		}
		w.crossing++
	}
	h.feeding = false
}

// feedCkpt answers the checkpoint machine of the present life.
func (w *world) feedCkpt(ev ckpt.HeadEvent) {
	w.feed(joblife.Event{Type: joblife.EvCkpt, Life: w.life(), Ckpt: ev})
}

// ask is a user's request.
func (w *world) ask(q request) {
	w.requests++
	r := ckpt.Request{ID: uint64(w.requests), Mode: q.mode, Stop: q.stop}
	w.logf("request %d: mode %d, stop %v", r.ID, q.mode, q.stop)
	w.head.asked[r.ID] = q
	if w.breaks(lateRequestTaken) && w.head.final {
		return // taken, by a head whose ranks are gone
	}
	w.feed(joblife.Event{Type: joblife.EvRequest, Request: r})
}

// toHead hands a frame over that was sent in an incarnation.
func (w *world) toHead(m oob.Msg, began, by int) {
	h := w.head
	if w.breaks(switchIgnored) && began == w.started && m.Incarnation != 0 {
		m.Incarnation = w.incarnation
	}
	if w.breaks(lifeIgnored) || w.breaks(incarnationIgnored) && m.Incarnation != w.incarnation {
		began, m.Incarnation = w.started, w.incarnation
	}
	life := began - h.base
	if life < 1 {
		if m.Incarnation == 0 {
			return // said to a head that is gone
		}
		life = w.life() // said by a process that has been restored since
	}
	if m.From >= 0 && (w.breaks(consequenceTaken) && m.B == 1) && (m.Kind == oob.Failure || m.Kind == oob.AbortJob) {
		m.B = 0
	}
	if w.breaks(failureRemembered) && m.Kind == oob.Failed {
		m.A = 0
	}
	agent := int(-2 - m.From)
	if m.From >= 0 {
		agent = by
		if life == w.life() && by >= len(h.nodes) {
			agent = w.agentOf(int(m.From)) // said by a process that has been restored since
		}
		if w.breaks(moverBlamed) && m.Kind == oob.Exit {
			agent = w.agentOf(int(m.From))
		}
		if life == w.life() && agent < len(h.nodes) && agent != w.agentOf(int(m.From)) && h.nodes[agent].ended {
			return // what was on a stream that has ended is lost
		}
	}
	if life == w.life() && m.Kind == oob.Spawn && m.A == oob.SpawnWaits {
		w.ranks[m.From].made = true
	}
	w.feed(joblife.Event{Type: joblife.EvFrame, Life: life, Agent: agent, Msg: m})
	if w.breaks(captureBeforeReady) && m.Kind == oob.Ready || w.breaks(commitBeforeWritten) && m.Kind == oob.Written {
		for i := range w.np {
			m.From = int32(i)
			w.feedCkpt(ckpt.HeadEvent{Type: ckpt.HvMsg, Msg: m})
		}
	}
	if w.breaks(finalizeInAttempt) && m.Kind == oob.FinalizeWant && h.job.Busy() {
		w.send(oob.Msg{Kind: oob.FinalizeGo, From: oob.Head, To: m.From, Incarnation: w.incarnation})
	}
}

func (w *world) headDo(a *joblife.Action) {
	h := w.head
	switch a.Type {
	case joblife.ActBegin:
		w.begins()
	case joblife.ActOrder:
		w.ordered()
	case joblife.ActSend:
		w.headSends(a)
	case joblife.ActKill:
		n := w.node(a)
		if v := h.voyage; v != nil && v.away && slices.Contains(v.targets, n) {
			h.reverting = true
			h.cut = h.cut || v.mishap == slowRestore // the limit may pass once more
			if w.breaks(backTooSoon) {
				w.later(20, n.goes)
			}
		}
		w.later(200, n.killed)
	case joblife.ActJoin, joblife.ActRestore, joblife.ActSwitch, joblife.ActMoved:
		w.moves(a)
	case joblife.ActTimer:
		h.clocks = append(h.clocks, clock{a.Timer, w.now - w.frozen + a.Millis})
	case joblife.ActStopTimer:
		h.clocks = slices.DeleteFunc(h.clocks, func(c clock) bool { return c.id == a.Timer })
	case joblife.ActCkpt:
		w.storage(&a.Ckpt)
	case joblife.ActSay:
		w.logf("head: %s", a.Text)
	case joblife.ActChoose:
		w.chooses(a)
	case joblife.ActLeaveOut:
		w.leavesOut(a)
	case joblife.ActVerdict:
		w.judged(a)
	case joblife.ActEnd:
		h.ended = true
		w.later(100, w.jobOver)
	}
}

// headSends puts a frame on its way: to one rank, to all of an agent, or to the
// agent itself.
func (w *world) headSends(a *joblife.Action) {
	h, m := w.head, a.Msg
	n := w.node(a)
	if !n.present() {
		if m.Kind != oob.KillAll || m.B != oob.Goodbye {
			w.violate("head: a frame %q to an agent of a life that is over", say(m))
		}
		w.later(100, n.leaves)
		return
	}
	if n.gone {
		w.violate("head: a frame %q to an agent that is gone", say(m))
	}
	switch m.Kind {
	case oob.KillAll:
		if m.To >= 0 {
			w.later(60, func() { n.replaced(int(m.To)) })
			return
		}
		n.bye = n.bye || m.B == oob.Goodbye
	case oob.Prepare, oob.Close:
		h.attempt = m.Attempt
	case oob.Revert, oob.Open:
		h.attempt = 0
	case oob.FinalizeGo:
		h.final = true
	case oob.Running, oob.Peers, oob.Routes:
		for _, r := range n.ranks {
			m.To = int32(r)
			w.send(m)
		}
		return
	}
	w.send(m)
	if w.breaks(secondAttempt) && m.Kind == oob.Open {
		m.Kind, m.Attempt = oob.Close, m.Attempt+1
		w.send(m)
	}
}

// storing counts the storage's works.
func (w *world) storing(n int) {
	w.head.works += n
	if !w.breaks(commitNotAwaited) {
		w.feed(joblife.Event{Type: joblife.EvStoring, Works: w.head.works})
	}
}

// work gives the storage something to do, which takes its time.
func (w *world) work(steps int, do func() ckpt.HeadEvent) {
	life := w.life()
	w.storing(+1)
	w.later(steps, func() {
		w.feed(joblife.Event{Type: joblife.EvCkpt, Life: life, Ckpt: do()})
		w.storing(-1)
	})
}

// storage does what the checkpoint machine wants of it.
func (w *world) storage(a *ckpt.HeadAction) {
	h, p := w.head, w.plan
	switch a.Type {
	case ckpt.HactFolder:
		lasting := a.Lasting
		w.work(40, func() ckpt.HeadEvent {
			if p.failIO && w.rng.IntN(8) == 0 {
				return ckpt.HeadEvent{Type: ckpt.HvFolderFailed, Lasting: lasting, Err: "read-only file system"}
			}
			seq := w.store.begin()
			if p.memory != nil && !lasting {
				w.makes(seq)
			}
			return ckpt.HeadEvent{Type: ckpt.HvFolder, Lasting: lasting, Seq: seq, Folder: fmt.Sprint(seq)}
		})
	case ckpt.HactAhead:
		w.later(60, func() { w.arrives(a) })
	case ckpt.HactCommit:
		if h.last = a.Seq; w.memory.making[a.Seq] != nil {
			w.commitInMemory(a)
			return
		}
		w.work(60, func() ckpt.HeadEvent { return w.commit(a.Seq) })
	case ckpt.HactDiscard:
		w.logf("head: discards %d", a.Seq)
		if w.breaks(discardsCommitted) && len(w.store.committed) > 0 {
			a.Seq = w.store.committed[len(w.store.committed)-1].seq
		}
		w.store.discard(w, a.Seq)
		if w.memory.making[a.Seq] != nil {
			delete(w.memory.making, a.Seq)
			w.drops(a.Seq)
		}
	case ckpt.HactDone:
		w.done(a.Done)
	}
}

func (w *world) commit(seq int) ckpt.HeadEvent {
	if w.plan.failIO && w.rng.IntN(5) == 0 {
		w.logf("head: commit of %d fails", seq)
		return ckpt.HeadEvent{Type: ckpt.HvCommitFailed, Err: "input/output error"}
	}
	w.store.commit(w, seq)
	return ckpt.HeadEvent{Type: ckpt.HvCommitted}
}

// done takes the answer to a request. Where nothing went wrong, an attempt
// fails only because the job is at its end.
func (w *world) done(d ckpt.Done) {
	h := w.head
	q, open := h.asked[d.ID]
	if !open {
		w.violate("request %d is answered twice", d.ID)
	}
	delete(h.asked, d.ID)
	w.logf("request %d: snapshot %d %q stop %v, mode %d, base %d, %q", d.ID, d.Seq, d.Err, d.Stop, d.Mode, d.Base, d.Notes)
	if d.Err == "" {
		w.seen.answered++
		if !w.store.has(d.Seq) {
			w.violate("request %d is told of snapshot %d, which is not committed", d.ID, d.Seq)
		}
		if w.store.portable(d.Seq) != (d.Mode == oob.ModeSelf) || q.mode != oob.ModeAuto && q.mode != d.Mode {
			w.violate("request %d of mode %d got images of mode %d", d.ID, q.mode, d.Mode)
		}
		if q.mode == oob.ModeAuto && d.Mode == oob.ModeSelf {
			w.seen.stayed++
		}
		if d.Stop && h.stopping == 0 && h.verdicts == 0 {
			h.stopping = d.Seq
		}
		return
	}
	w.seen.refused++
	if strings.Contains(d.Err, "protocol error") {
		w.violate("request %d: %s", d.ID, d.Err)
	}
	if w.plan.quiet() && !strings.Contains(d.Err, "the job is ending") && !strings.Contains(d.Err, "Finalize") && !strings.Contains(d.Err, "the job ends with") && !strings.Contains(d.Err, "held off") {
		w.violate("request %d failed although nothing went wrong: %s", d.ID, d.Err)
	}
	w.seen.note(d.Err)
}
