package launcher

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gorun-mpi/gorun/internal/ckpt"
)

// ckptRequest is one wish for a checkpoint, of a client, a signal or the timer.
// Its functions are called in the loop, done exactly once.
type ckptRequest struct {
	stop     bool
	timeout  time.Duration
	progress func(ckpt.ProgressInfo)
	done     func(r *Report, err error)
	began    time.Time // set by request
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
func (w *waiters) answer(id uint64, rep *Report, err error) {
	if r, ok := w.byID[id]; ok {
		delete(w.byID, id)
		r.done(rep, err)
	}
}

// fail answers everybody.
func (w *waiters) fail(why string) {
	for id := range w.byID {
		w.answer(id, nil, errors.New(why))
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
		r.done(nil, errors.New("it was started without -cr and cannot be checkpointed: start it with -cr"))
		return
	case h.inc == nil || h.inc.ending != nil:
		r.done(nil, errors.New("the job is ending"))
		return
	}
	r.began = time.Now()
	id := h.waiters.add(r)
	q := ckpt.Request{ID: id, Mode: h.opt.mode(), Stop: r.stop, Timeout: r.timeout.Milliseconds(), Codec: h.opt.CkptCodec}
	if inc := h.inc; inc.count[phaseUp] < len(inc.ranks) {
		inc.early = append(inc.early, q)
		h.after(cmp.Or(r.timeout, upTimeout), func() { inc.tooEarly(id) })
		return
	}
	h.inc.step(ckpt.HeadEvent{Type: ckpt.HvRequest, Request: q})
}

// upTimeout is how long a request waits by default for all ranks to be up.
const upTimeout = time.Minute

// tooEarly gives up a request that came before all ranks were up, id, or all.
func (inc *incarnation) tooEarly(id uint64) {
	inc.early = slices.DeleteFunc(inc.early, func(q ckpt.Request) bool {
		if id != 0 && q.ID != id {
			return false
		}
		inc.h.waiters.answer(q.ID, nil, fmt.Errorf("not all ranks are up: %s", inc.late()))
		return true
	})
}

// late names the ranks that are not up.
func (inc *incarnation) late() string {
	var late []int
	for rank := range inc.ranks {
		if p := inc.ranks[rank].phase; p != phaseUp && p != phaseFinal {
			late = append(late, rank)
		}
	}
	if len(late) == 0 {
		return "the job is ending"
	}
	return fmt.Sprintf("%s (rank %d: %v)", rankList(late), late[0], inc.ranks[late[0]].phase)
}

// allUp opens the way for checkpoints, those asked for before first.
func (inc *incarnation) allUp() {
	inc.step(ckpt.HeadEvent{Type: ckpt.HvAllUp})
	early := inc.early
	inc.early = nil
	for _, q := range early {
		inc.step(ckpt.HeadEvent{Type: ckpt.HvRequest, Request: q})
	}
}

// periodic is the timer's request: left out while a checkpoint runs.
func (inc *incarnation) periodic() {
	if inc.ending != nil || inc.machine.Busy() || inc.count[phaseUp] < len(inc.ranks) || inc.leaving {
		return
	}
	inc.h.request(ckptRequest{done: func(_ *Report, err error) {
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
		inc.gate.passed(a.Msg.Kind)
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
		inc.commit(a)
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
