package head

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
)

// ckptRequest is one request for a checkpoint, by a client, a signal or the timer. Its functions
// are called in the loop, and done is called exactly once.
type ckptRequest struct {
	stop     bool
	timeout  time.Duration
	patient  bool // it waits without limit while checkpoints are held off
	periodic bool // the timer has asked for it
	progress func(ckpt.ProgressInfo)
	done     func(r *control.Report, err error)
	began    time.Time // set by request
	begun    bool      // the machine has accepted it; set by request
}

// waiters are the requests that wait for the end of a checkpoint, or of the job.
type waiters struct {
	next   uint64
	byID   map[uint64]ckptRequest
	orders map[uint64]func(error)
	end    []func()
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

// answer answers one request.
func (w *waiters) answer(id uint64, rep *control.Report, err error) {
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
	for id := range w.orders {
		w.answerOrder(id, why)
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
	case h.job == nil:
		r.done(nil, errors.New("the job is ending"))
		return
	}
	r.began = time.Now()
	q := ckpt.Request{ID: h.waiters.add(r), Mode: h.opt.Mode(), Stop: r.stop, Timeout: r.timeout.Milliseconds(), Patient: r.patient, Codec: h.opt.CkptCodec, Pointless: h.inc.pointless()}
	begin := func() {
		if _, waits := h.waiters.byID[q.ID]; waits && h.job != nil && !r.begun {
			r.begun = true
			q.Spent = min(q.Timeout, time.Since(r.began).Milliseconds())
			h.feed(joblife.Event{Type: joblife.EvRequest, Request: q})
		}
	}
	h.trimmed(q.Mode, begin)
	if r.timeout > 0 && !r.begun {
		h.after(r.timeout/2, begin)
	}
}

// trimmed tells the ranks to collect their garbage before they are imaged as processes, and then
// calls then. The ranks compute meanwhile. It does not wait for ranks that exceed the limit of an
// answer.
func (h *head) trimmed(mode uint64, then func()) {
	if mode == oob.ModeSelf || !h.job.Idle() {
		then()
		return
	}
	h.trims++
	h.lookWith(oob.LookTrim, []byte{byte(mode)}, h.everybody(), func([]*waitreport.Info) {
		h.trims--
		then()
	})
}

// periodic is the timer's request. It is skipped while a checkpoint runs, and postponed to the
// release while checkpoints are held off.
func (h *head) periodic() {
	held := h.job.Held() != "" && !h.job.Busy()
	if !h.job.Idle() && !held || h.putOff || h.trims > 0 {
		return
	}
	h.putOff = held
	h.request(ckptRequest{patient: true, periodic: true, done: func(_ *control.Report, err error) {
		h.putOff = false
		h.tellPeriodic(err)
	}})
}

// tellPeriodic tells the user how a periodic checkpoint has ended.
func (h *head) tellPeriodic(err error) {
	if err != nil && !h.job.Steady() {
		return // the job's end is why
	}
	if news := h.trouble.news(err); news != "" {
		h.say("%s", news)
	}
}

// trouble is why periodic checkpoints have failed since the last success. A full disk may fail
// hundreds of them, and is reported once.
type trouble map[string]bool

// news returns what to tell the user about a periodic checkpoint, "" for nothing. Errors whose ends
// differ only in words with numbers (ranks, files, times) count as one.
func (t *trouble) news(err error) string {
	if err == nil {
		over := len(*t) > 0
		*t = nil
		if over {
			return "the periodic checkpoint works again"
		}
		return ""
	}
	end := err.Error()
	end = end[strings.LastIndex(end, ": ")+1:] // the progress of a rank in the text before differs each time
	words := slices.DeleteFunc(strings.Fields(end), func(w string) bool { return strings.ContainsAny(w, "0123456789") })
	kind := strings.Join(words, " ")
	if (*t)[kind] {
		return ""
	}
	if *t == nil {
		*t = trouble{}
	}
	(*t)[kind] = true
	return fmt.Sprintf("the periodic checkpoint failed, the job goes on: %v", err)
}

func (inc *incarnation) act(a *ckpt.HeadAction) {
	switch a.Type {
	case ckpt.HactFolder:
		inc.beginFolder(a.Lasting)
	case ckpt.HactCommit:
		inc.commit(a)
	case ckpt.HactDiscard:
		delete(inc.store.bySeq, a.Seq)
		inc.h.storage.Discard(a.Seq)
	case ckpt.HactDone:
		inc.answered(&a.Done)
	case ckpt.HactAhead:
		inc.bringAhead(a)
	case ckpt.HactProgress:
		if inc.store.phase != a.Info.Phase {
			inc.store.phase = a.Info.Phase
			inc.h.verbose("checkpoint: %s", a.Info.Phase)
		}
		if m := inc.moving; m != nil && m.tell != nil {
			m.tell(a.Info)
		}
		for _, w := range inc.h.waiters.byID {
			if w.progress != nil {
				w.progress(a.Info)
			}
		}
	}
}
