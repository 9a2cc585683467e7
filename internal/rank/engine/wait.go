package engine

import (
	"runtime"
	"time"

	"github.com/gorun-mpi/gorun/internal/rank/backoff"
)

// waiter is one caller that waits: for a request, for any of several, for a turn of a team, or for a
// message to probe.
type waiter struct {
	next, prev *waiter       // in Engine.blocked
	woken      chan struct{} // capacity 1; followers sleep on it
	view       *View
	since      time.Time // when it first slept
	r          *request  // the request waited for; nil: see team, probe and any
	team       *Team     // the team whose turn is waited for
	plan       *Plan     // no caller waits: it marks the end of a part of this plan
	any        int       // how many requests WaitAny waits for
	probing
	siblings waiterLink // among those of view
	listed   bool
	leading  bool
	working  bool // it does the work of a plan meanwhile, and cannot lead
	ready    bool // what it waits for has happened
}

// waiterList is Engine.blocked.
type waiterList struct{ head, tail *waiter }

// waiterLink is a waiter's place in another list than waiterList.
type waiterLink struct{ next, prev *waiter }

func (l *waiterList) push(w *waiter) {
	w.prev, w.next, w.listed = l.tail, nil, true
	if l.tail != nil {
		l.tail.next = w
	} else {
		l.head = w
	}
	l.tail = w
	w.view.join(w)
}

func (l *waiterList) remove(w *waiter) {
	if !w.listed {
		return
	}
	w.listed = false
	w.view.part(w)
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.tail = w.prev
	}
	w.next, w.prev = nil, nil
}

func (e *Engine) newWaiter() *waiter {
	w := e.freeWaiter
	if w == nil {
		return &waiter{woken: make(chan struct{}, 1)}
	}
	e.freeWaiter, w.next = w.next, nil
	return w
}

func (e *Engine) freeWaiting(w *waiter) {
	select { // a token for what is over
	case <-w.woken:
	default:
	}
	*w = waiter{woken: w.woken, next: e.freeWaiter}
	e.freeWaiter = w
}

// leading says which goroutine polls and sleeps for all.
type leading uint8

const (
	leadNobody leading = iota
	leadCaller
	leadBackground
)

// await returns when w is ready, or with an error when its view has ended or the job was aborted.
// The lock is held on entry and on return, but not in between.
func (e *Engine) await(w *waiter, v *View, s *backoff.Spell) error {
	w.view = v
	if e.flush(); !w.ready { // the flush may complete a send
		e.blocked.push(w)
	}
	for !w.ready {
		if err := e.broken(v); err != nil {
			e.blocked.remove(w)
			e.handOver()
			return err
		}
		switch {
		case e.lead == leadCaller:
			e.follow(w)
		case e.works.head != nil: // another caller may lead meanwhile
			w.working = true
			e.handOver()
			e.work()
			w.working = false
		default:
			e.leadFor(w, v, s)
		}
	}
	e.handOver()
	return nil
}

// broken says why a wait ends without its event.
func (e *Engine) broken(v *View) error {
	if err := e.aborted(); err != nil {
		return err
	}
	return v.Err()
}

// aborted says why the job was aborted. Abort may still wait for the lock. A caller that gets this
// error before Abort has the lock finds every later call refused as well.
func (e *Engine) aborted() error {
	a := e.abort.Load()
	if a == nil {
		return nil
	}
	e.judge()
	return a.err
}

func (e *Engine) follow(w *waiter) {
	w.sleeps()
	e.mu.unlock()
	<-w.woken
	e.mu.lock()
}

func (w *waiter) sleeps() {
	if w.since.IsZero() {
		w.since = time.Now()
	}
}

// leadFor polls for all until w is ready or its wait broken.
func (e *Engine) leadFor(w *waiter, v *View, s *backoff.Spell) {
	e.takeLead()
	w.leading = true
	slept := false // and has found nothing since: a rank that sends something wakes this one
	for !w.ready && e.abort.Load() == nil && !v.done() && e.works.head == nil {
		switch moved := e.poll(); {
		case e.woke || moved && e.mu.contended(): // let callers go on whose requests are done
			e.woke = false
			e.stepAside()
		case moved:
			*s, slept = backoff.Spell{}, false
		case slept || !e.rest(s):
			if e.flush(); !w.ready { // a sleeper is not told that its request is done
				w.sleeps()
				slept = e.sleep(-1)
			}
			*s = backoff.Spell{}
		}
	}
	w.leading = false
	e.lead = leadNobody
}

// takeLead makes the caller the leader. If the background goroutine leads, it finds out when it
// looks, and stops.
func (e *Engine) takeLead() {
	if e.lead == leadBackground && e.inWait.Load() {
		e.waiter.Wake()
	}
	e.lead = leadCaller
}

// leadAlone is the shortest wait for a request. The caller is the only one that waits. It polls and
// is on no list. It returns when the request is done, the wait is broken, or the time to sleep has
// come.
func (e *Engine) leadAlone(r *request, v *View, s *backoff.Spell) {
	e.takeLead()
	e.alone = r
	for gen := r.gen; r.phase != phaseDone && r.gen == gen && e.abort.Load() == nil && !v.done(); {
		switch moved := e.poll(); {
		case e.woke:
			e.woke = false
			e.stepAside()
		case moved:
			if r.phase != phaseDone {
				*s = backoff.Spell{}
				if e.mu.contended() {
					e.stepAside()
				}
				if e.works.head != nil {
					gen = 0
				}
			}
		case !e.rest(s):
			gen = 0
		}
	}
	e.alone, e.lead = nil, leadNobody
}

// rest is what a leader does after a poll that found nothing. It reports false
// when it is time to sleep.
func (e *Engine) rest(s *backoff.Spell) bool {
	if e.mu.contended() {
		e.stepAside()
		return true
	}
	return e.pace.Rest(s, e.waiter)
}

// stepAside lets other callers, or the closer of the gate, get in.
func (e *Engine) stepAside() {
	e.mu.unlock()
	runtime.Gosched()
	e.mu.lock()
}

// sleep waits for the modules, without limit if d < 0. The lock is given up meanwhile. It may return
// early, or without having slept, which it reports.
func (e *Engine) sleep(d time.Duration) (slept bool) {
	if e.inWait.Load() { // another former leader has not left yet
		e.wantOut.Store(true)
		if e.inWait.Load() {
			e.waiter.Wake()
			e.mu.unlock()
			<-e.outOfWait
			e.mu.lock()
			return false
		}
	}
	e.flush()
	if !e.arm() {
		return false
	}
	e.inWait.Store(true)
	e.mu.unlock()
	e.waiter.Wait(d)
	e.inWait.Store(false)
	if e.wantOut.Load() {
		e.wantOut.Store(false)
		token(e.outOfWait)
	}
	if e.mu.gate() {
		token(e.mu.left)
	}
	e.mu.lock()
	return true
}

func (e *Engine) arm() bool {
	if e.due != 0 && !e.mu.gate() {
		return false
	}
	for _, m := range e.polled {
		if !m.Arm() {
			return false
		}
	}
	for _, m := range e.idle {
		if !m.Arm() {
			return false
		}
	}
	return len(e.turns) == 0 || e.mu.gate() || e.armTurns()
}

// handOver finds a new leader if there is none.
func (e *Engine) handOver() {
	if e.lead != leadNobody {
		return
	}
	for w := e.blocked.head; w != nil; w = w.next {
		if !w.working {
			token(w.woken)
			return
		}
	}
	if e.expecting != 0 {
		e.expect()
	} else if e.back.parked {
		e.wakeBackground()
	}
}

// satisfy ends a wait.
func (e *Engine) satisfy(w *waiter) {
	w.ready = true
	e.blocked.remove(w)
	e.rouse(w)
}

// rouse makes a waiter look again.
func (e *Engine) rouse(w *waiter) {
	if !w.leading {
		token(w.woken)
		e.woke = true
	} else if e.inWait.Load() {
		e.waiter.Wake()
	}
}

// finish waits for r and frees it. If the view ends first and r can no longer be given up, it waits
// on.
func (e *Engine) finish(r *request, v *View) (Status, error) {
	for r.phase != phaseDone {
		err := e.awaitRequest(r, v)
		if err == nil {
			break
		}
		if e.abandon(r) {
			return Status{}, err
		}
		if e.abort.Load() != nil {
			r.after |= afterFree
			return Status{}, err
		}
		v = nil
	}
	st, err := r.status, r.err
	e.freeRequest(r)
	return st, err
}

// awaitRequest returns when r is done, when a Test has freed it meanwhile, or with an error.
func (e *Engine) awaitRequest(r *request, v *View) error {
	var s backoff.Spell
	gen := r.gen
	if e.lead != leadCaller && e.blocked.head == nil {
		e.flush()
		e.leadAlone(r, v, &s)
		if r.phase == phaseDone || r.gen != gen {
			if e.blocked.head != nil || e.back.parked {
				e.handOver()
			}
			return nil
		}
	}
	w := e.newWaiter()
	w.r, r.w = r, w
	err := e.await(w, v, &s)
	if r.w == w { // a Test may have ended and freed it meanwhile
		r.w = nil
	}
	e.freeWaiting(w)
	return err
}
