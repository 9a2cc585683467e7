package launcher

import (
	"errors"
	"time"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// ckptRequest is one wish for a checkpoint, of a client, a signal or the timer.
// Its functions are called in the loop, done exactly once.
type ckptRequest struct {
	stop     bool
	timeout  time.Duration
	progress func(ckpt.ProgressInfo)
	done     func(schema string, err error)
}

// waiters are those who wait for a checkpoint's end or the job's.
type waiters struct {
	next uint64
	byID map[uint64]ckptRequest
	end  []func()
}

func (w *waiters) add(r ckptRequest) uint64 {
	if w.byID == nil {
		w.byID = map[uint64]ckptRequest{}
	}
	w.next++
	w.byID[w.next] = r
	return w.next
}

func (w *waiters) onEnd(f func()) { w.end = append(w.end, f) }

// answer tells the one who asked.
func (w *waiters) answer(id uint64, schema string, err error) {
	if r, ok := w.byID[id]; ok {
		delete(w.byID, id)
		r.done(schema, err)
	}
}

// fail answers everybody.
func (w *waiters) fail(why string) {
	for id := range w.byID {
		w.answer(id, "", errors.New(why))
	}
	for _, f := range w.end {
		f()
	}
	w.end = nil
}

// request asks the machine for a checkpoint.
func (h *head) request(r ckptRequest) {
	switch {
	case h.opt.CR == "":
		r.done("", errors.New("it was started without -cr and cannot be checkpointed: start it with -cr, and let the program register its state (package cr)"))
		return
	case h.inc == nil || h.inc.ending != nil:
		r.done("", errors.New("the job is ending"))
		return
	}
	h.inc.step(ckpt.HeadEvent{Type: ckpt.HvRequest, Request: ckpt.Request{
		ID: h.waiters.add(r), Mode: oob.ModeSelf, Stop: r.stop, Timeout: r.timeout.Milliseconds(), Codec: h.opt.CkptCodec,
	}})
}

// periodic is the timer's request: left out while a checkpoint runs.
func (inc *incarnation) periodic() {
	if inc.ending != nil || inc.machine.Busy() || inc.count[phaseUp] < len(inc.ranks) || inc.leaving {
		return
	}
	inc.h.request(ckptRequest{done: func(schema string, err error) {
		if v, _ := inc.causes.verdict(); err != nil && inc.ending == nil && v == nil && !inc.leaving {
			inc.h.say("the periodic checkpoint failed, the job goes on: %v", err)
		}
	}})
}

// step feeds the machine and does what it says. Events that come back at once
// are fed after all actions of the step.
func (inc *incarnation) step(ev ckpt.HeadEvent) {
	for _, a := range inc.machine.Step(ev) {
		inc.act(&a)
	}
}

func (inc *incarnation) act(a *ckpt.HeadAction) {
	switch a.Type {
	case ckpt.HactSend:
		if l := inc.ranks[a.Msg.To].link; l != nil {
			l.out.send(a.Msg)
		}
	case ckpt.HactTimer:
		id := a.Timer
		inc.timers[id] = inc.h.after(time.Duration(a.Millis)*time.Millisecond, func() {
			delete(inc.timers, id)
			inc.step(ckpt.HeadEvent{Type: ckpt.HvTimeout, Timer: id})
		})
	case ckpt.HactStopTimer:
		if t := inc.timers[a.Timer]; t != nil {
			t.Stop()
			delete(inc.timers, a.Timer)
		}
	case ckpt.HactFolder:
		inc.beginFolder()
	case ckpt.HactCommit:
		inc.commit(a.Seq, a.Images)
	case ckpt.HactDiscard:
		inc.discard(a.Seq)
	case ckpt.HactDone:
		inc.answered(&a.Done)
	case ckpt.HactProgress:
		if inc.store.phase != a.Info.Phase {
			inc.store.phase = a.Info.Phase
			inc.h.verbose("checkpoint: %s", a.Info.Phase)
		}
		for _, w := range inc.h.waiters.byID {
			if w.progress != nil {
				w.progress(a.Info)
			}
		}
	case ckpt.HactFinalized:
		for rank := range inc.ranks {
			inc.reach(rank, phaseFinal)
		}
	}
}
