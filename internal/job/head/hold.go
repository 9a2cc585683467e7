package head

import (
	"errors"
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
)

// Orders of users that keep checkpoints off, or stop the ranks for a while. The machine of the
// job's life decides.

// order feeds the machine a user's order. done is called in the loop, once.
func (h *head) order(t joblife.EventType, done func(error)) {
	id := h.waiters.addOrder(done)
	since := fmt.Sprintf("gorun hold since %s, which gorun release %.8s ends", time.Now().Format(time.TimeOnly), h.id)
	h.feed(joblife.Event{Type: t, ID: id, Text: since})
}

// orders are those that clients may give, by verb.
var orders = map[string]joblife.EventType{
	control.VerbHold: joblife.EvHold, control.VerbRelease: joblife.EvRelease,
	control.VerbSuspend: joblife.EvSuspend, control.VerbResume: joblife.EvResume,
}

// addOrder records the client to answer.
func (w *waiters) addOrder(done func(error)) uint64 {
	if w.orders == nil {
		w.orders = map[uint64]func(error){}
	}
	w.next++
	w.orders[w.next] = done
	return w.next
}

// answerOrder answers an order; why, if not empty, says why it was not carried out.
func (w *waiters) answerOrder(id uint64, why string) {
	done := w.orders[id]
	if done == nil {
		return
	}
	delete(w.orders, id)
	if why != "" {
		done(errors.New(why))
		return
	}
	done(nil)
}

// limit is the time that -timeout leaves to the job. It does not run while the job is suspended.
type limit struct {
	over  func()
	left  time.Duration
	since time.Time
	timer *time.Timer // nil: it does not run
}

func (l *limit) start() {
	if l.over == nil {
		return
	}
	l.since = time.Now()
	l.timer = time.AfterFunc(l.left, l.over)
}

func (l *limit) stop() {
	if l.timer != nil && l.timer.Stop() {
		l.left -= time.Since(l.since)
	}
	l.timer = nil
}
