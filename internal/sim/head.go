package sim

import (
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// head is the job's head: the shipped machine, and a driver with a clock and
// a storage that take their time.
type head struct {
	m       *ckpt.Head
	up      map[int32]bool
	timer   uint64 // 0: none runs
	due     int64  // in head time: steps in which the job was not being imaged
	todo    []task
	asked   map[uint64]request // not answered
	last    int                // sequence number being committed
	final   bool
	attempt uint32 // whose cut must hold: from Prepare or Close to Open or Revert
	doomed  bool   // a rank has died: this incarnation is to end
}

// task is something that the head's driver has begun.
type task struct {
	at int64
	do func()
}

func (w *world) newHead() {
	p := w.plan
	cfg := ckpt.HeadConfig{Size: w.np, Incarnation: w.incarnation, AutoMillis: p.auto, FullEvery: p.fullEvery,
		PhaseMillis: 200_000 + 20_000*int64(w.np), AskMillis: 2_000 + 2_000*int64(w.np)}
	if p.sparse {
		cfg.SparseFrom = 1
	}
	if p.hurry {
		cfg.PhaseMillis, cfg.AskMillis = 1+w.rng.Int64N(1500*int64(w.np)), 1+w.rng.Int64N(500)
	} else if p.fault != noFault {
		cfg.PhaseMillis, cfg.AskMillis = 4_000*int64(w.np), 1_000
	}
	w.head = &head{m: ckpt.NewHead(cfg), up: make(map[int32]bool), asked: make(map[uint64]request)}
	if w.breaks(initNotHeld) {
		w.headStep(ckpt.HeadEvent{Type: ckpt.HvAllUp})
	}
}

func (w *world) later(steps int, do func()) {
	w.head.todo = append(w.head.todo, task{w.now + 1 + w.rng.Int64N(int64(steps)), do})
}

// headTurn does what is due at the head.
func (w *world) headTurn() {
	h := w.head
	for i := 0; i < len(h.todo); i++ {
		if t := h.todo[i]; t.at <= w.now {
			h.todo = append(h.todo[:i:i], h.todo[i+1:]...)
			t.do()
			return
		}
	}
	if h.timer != 0 && w.now-w.frozen >= h.due {
		t := h.timer
		h.timer = 0
		w.logf("head: timer %d runs out", t)
		w.headStep(ckpt.HeadEvent{Type: ckpt.HvTimeout, Timer: t})
	}
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
	w.headStep(ckpt.HeadEvent{Type: ckpt.HvRequest, Request: r})
}

func (w *world) toHead(m oob.Msg) {
	if m.Incarnation != w.incarnation && w.breaks(incarnationIgnored) {
		m.Incarnation = w.incarnation
	}
	if m.Kind == oob.Up {
		if m.Incarnation == w.incarnation {
			w.upped(m.From)
		}
		return
	}
	if w.breaks(failureRemembered) && m.Kind == oob.Failed {
		m.A = 0
	}
	w.headStep(ckpt.HeadEvent{Type: ckpt.HvMsg, Msg: m})
	if w.breaks(captureBeforeReady) && m.Kind == oob.Ready || w.breaks(commitBeforeWritten) && m.Kind == oob.Written {
		for i := range w.np {
			m.From = int32(i)
			w.headStep(ckpt.HeadEvent{Type: ckpt.HvMsg, Msg: m})
		}
	}
	if w.breaks(finalizeInAttempt) && m.Kind == oob.FinalizeWant && w.head.m.Busy() {
		w.send(oob.Msg{Kind: oob.FinalizeGo, From: oob.Head, To: m.From, Incarnation: w.incarnation})
	}
}

func (w *world) upped(from int32) {
	h := w.head
	if h.up[from] {
		return
	}
	h.up[from] = true
	if len(h.up) == w.np {
		w.headStep(ckpt.HeadEvent{Type: ckpt.HvAllUp})
		for i := range w.np {
			w.send(oob.Msg{Kind: oob.Running, From: oob.Head, To: int32(i), Incarnation: w.incarnation})
		}
	}
}

func (w *world) headStep(ev ckpt.HeadEvent) {
	h := w.head
	for _, a := range h.m.Step(ev) {
		if w.head != h {
			return // restarted meanwhile
		}
		w.headDo(a)
	}
	w.crossing++
}

func (w *world) headDo(a ckpt.HeadAction) {
	h, p := w.head, w.plan
	switch a.Type {
	case ckpt.HactSend:
		switch a.Msg.Kind {
		case oob.Prepare, oob.Close:
			h.attempt = a.Msg.Attempt
		case oob.Revert, oob.Open:
			h.attempt = 0
		}
		w.send(a.Msg)
		if w.breaks(secondAttempt) && a.Msg.Kind == oob.Open {
			a.Msg.Kind, a.Msg.Attempt = oob.Close, a.Msg.Attempt+1
			w.send(a.Msg)
		}
	case ckpt.HactTimer:
		h.timer, h.due = a.Timer, w.now-w.frozen+a.Millis
	case ckpt.HactStopTimer:
		h.timer = 0
	case ckpt.HactFolder:
		w.later(40, func() {
			if p.failIO && w.rng.IntN(8) == 0 {
				w.headStep(ckpt.HeadEvent{Type: ckpt.HvFolderFailed, Err: "read-only file system"})
				return
			}
			seq := w.store.begin()
			w.headStep(ckpt.HeadEvent{Type: ckpt.HvFolder, Seq: seq, Folder: fmt.Sprint(seq)})
		})
	case ckpt.HactCommit:
		h.last = a.Seq
		w.later(60, func() { w.commit(a.Seq) })
	case ckpt.HactDiscard:
		w.logf("head: discards %d", a.Seq)
		if w.breaks(discardsCommitted) && len(w.store.committed) > 0 {
			a.Seq = w.store.committed[len(w.store.committed)-1].seq
		}
		w.store.discard(w, a.Seq)
	case ckpt.HactDone:
		w.done(a.Done)
	case ckpt.HactFinalized:
		h.final = true
	}
}

func (w *world) commit(seq int) {
	ev := ckpt.HeadEvent{Type: ckpt.HvCommitted}
	if w.plan.failIO && w.rng.IntN(5) == 0 {
		ev = ckpt.HeadEvent{Type: ckpt.HvCommitFailed, Err: "input/output error"}
		w.logf("head: commit of %d fails", seq)
	} else {
		w.store.commit(w, seq)
	}
	w.headStep(ev)
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
		if d.Stop {
			w.later(60, func() { w.stopped(d.Seq) })
		}
		return
	}
	w.seen.refused++
	if strings.Contains(d.Err, "protocol error") {
		w.violate("request %d: %s", d.ID, d.Err)
	}
	if w.plan.quiet() && !strings.Contains(d.Err, "Finalize") && !strings.Contains(d.Err, "the job ends with") {
		w.violate("request %d failed although nothing went wrong: %s", d.ID, d.Err)
	}
	w.seen.note(d.Err)
}
