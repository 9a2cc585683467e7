package rpi

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

// waiter is one caller that waits: for a request, for any of several, or for a
// message to probe.
type waiter struct {
	next, prev *waiter       // in Engine.blocked
	woken      chan struct{} // capacity 1; followers sleep on it
	view       *View
	since      time.Time // when it first slept
	r          *request  // what for; nil: see team, probe and any
	team       *Team     // for whose turn
	probe      bool
	any        int // of how many requests (WaitAny)
	src        int32
	tag        int32
	ctx        uint64
	err        error // why a probe ended
	listed     bool
	leading    bool
	ready      bool // what it waits for has happened
}

// waiterList is Engine.blocked.
type waiterList struct {
	head, tail *waiter
	probes     int
}

func (l *waiterList) push(w *waiter) {
	w.prev, w.next, w.listed = l.tail, nil, true
	if l.tail != nil {
		l.tail.next = w
	} else {
		l.head = w
	}
	l.tail = w
	if w.probe {
		l.probes++
	}
}

func (l *waiterList) remove(w *waiter) {
	if !w.listed {
		return
	}
	w.listed = false
	if w.probe {
		l.probes--
	}
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

// leading says who polls and sleeps for all.
type leading uint8

const (
	leadNobody leading = iota
	leadCaller
	leadBackground
)

// await returns when w is ready, or with an error when its view ended or the
// job was aborted. The lock is held on entry and on return, not in between.
func (e *Engine) await(w *waiter, v *View, s *spell) error {
	w.view = v
	if e.flush(); !w.ready { // a send may be over with that
		e.blocked.push(w)
	}
	for !w.ready {
		if err := e.broken(v); err != nil {
			e.blocked.remove(w)
			e.handOver()
			return err
		}
		if e.lead == leadCaller {
			e.follow(w)
		} else {
			e.leadFor(w, v, s)
		}
	}
	e.handOver()
	return nil
}

// broken says why a wait ends without what it waits for.
func (e *Engine) broken(v *View) error {
	if a := e.abort.Load(); a != nil {
		return a.err
	}
	return v.Err()
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

// leadFor polls for everybody until w is ready or its wait broken.
func (e *Engine) leadFor(w *waiter, v *View, s *spell) {
	e.takeLead()
	w.leading = true
	for !w.ready && e.abort.Load() == nil && !v.done() {
		switch moved := e.poll(); {
		case e.woke || moved && e.mu.contended(): // let those go on whose requests are done
			e.woke = false
			e.stepAside()
		case moved:
			*s = spell{}
		case !e.rest(s):
			if e.flush(); !w.ready { // who sleeps is not told of that
				w.sleeps()
				e.sleep(-1)
			}
			*s = spell{}
		}
	}
	w.leading = false
	e.lead = leadNobody
}

// takeLead makes the caller the leader. If the background goroutine is, it has
// to go: it finds out when it looks.
func (e *Engine) takeLead() {
	if e.lead == leadBackground && e.inWait.Load() {
		e.waiter.Wake()
	}
	e.lead = leadCaller
}

// leadAlone is the shortest wait for a request: of the only caller that waits,
// who polls and is on no list. It ends when the request does, or without it
// when the wait is broken or the time to sleep has come.
func (e *Engine) leadAlone(r *request, v *View, s *spell) {
	e.takeLead()
	e.alone = r
	for gen := r.gen; r.phase != phaseDone && r.gen == gen && e.abort.Load() == nil && !v.done(); {
		switch moved := e.poll(); {
		case e.woke:
			e.woke = false
			e.stepAside()
		case moved:
			if r.phase != phaseDone {
				*s = spell{}
				if e.mu.contended() {
					e.stepAside()
				}
			}
		case !e.rest(s):
			gen = 0
		}
	}
	e.alone, e.lead = nil, leadNobody
}

// stepAside lets other callers, or the closer of the gate, get in.
func (e *Engine) stepAside() {
	e.mu.unlock()
	runtime.Gosched()
	e.mu.lock()
}

// sleep waits for the modules, d < 0 without limit. The lock is given up
// meanwhile. It returns early, or without sleep, whenever it likes.
func (e *Engine) sleep(d time.Duration) {
	if e.inWait.Load() { // another former leader has not left yet
		e.wantOut.Store(true)
		if e.inWait.Load() {
			e.waiter.Wake()
			e.mu.unlock()
			<-e.outOfWait
			e.mu.lock()
			return
		}
	}
	e.flush()
	if !e.arm() {
		return
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
}

func (e *Engine) arm() bool {
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
	if w := e.blocked.head; w != nil {
		token(w.woken)
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

// finish waits for r and frees it. Where the view ends first and r cannot be
// given up any more, it is waited for regardless.
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
			r.detached = true
			return Status{}, err
		}
		v = nil
	}
	st, err := r.status, r.err
	e.freeRequest(r)
	return st, err
}

// awaitRequest returns when r is done, or freed meanwhile by a Test, or with an
// error.
func (e *Engine) awaitRequest(r *request, v *View) error {
	var s spell
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
	if r.w == w { // not ended, and freed, by a Test meanwhile
		r.w = nil
	}
	e.freeWaiting(w)
	return err
}

// Wait waits for a request and frees it. If it fails with ErrDeadline or
// ErrAborted before the operation is over, the request stays as it is. One
// goroutine at a time may wait for a request. (MPI-4.1 chapter 3.7.3)
func (e *Engine) Wait(h Request, v *View) (Status, error) {
	e.enter()
	if e.dirty != 0 {
		e.flush()
	}
	st, err := e.wait(h, v)
	e.leave()
	return st, err
}

// Waits is a row of waits that enters the engine once. Between BeginWaits and End
// the engine's lock is held while no Wait lasts: the caller must be short and must
// not call the engine otherwise. (MPI-4.1 chapter 3.7.5)
type Waits struct{ e *Engine }

// BeginWaits begins a row of waits.
func (e *Engine) BeginWaits() Waits {
	e.enter()
	if e.dirty != 0 {
		e.flush()
	}
	return Waits{e}
}

// Wait is Engine.Wait.
func (w Waits) Wait(h Request, v *View) (Status, error) { return w.e.wait(h, v) }

// Done ends operations that have succeeded, as Wait does, for those who do not need
// their statuses: n of them one after the other, up to the first of which only Wait can
// tell, and returns how many. Their handles are parts of values of the caller's own that
// lie side by side and have so many bytes each; first is that of the first.
func (w Waits) Done(first *Request, bytes uintptr, n int) int {
	free := w.e.freeRequests
	done := 0
	for ; done < n; done++ {
		h := (*Request)(unsafe.Add(unsafe.Pointer(first), uintptr(done)*bytes))
		r := h.r
		if r == nil || r.gen != h.gen || r.phase != phaseDone || r.err != nil {
			break
		}
		r.reset(free)
		free = r
	}
	w.e.freeRequests = free
	return done
}

// End ends the row.
func (w Waits) End() { w.e.leave() }

func (e *Engine) wait(h Request, v *View) (Status, error) {
	r, err := h.resolve()
	if r == nil {
		return emptyStatus, err
	}
	if r.phase != phaseDone {
		if err := e.waitFor(h, v); err != nil {
			return Status{}, err
		}
	}
	st, err := r.status, r.err
	e.freeRequest(r)
	return st, err
}

func (e *Engine) waitFor(h Request, v *View) error {
	if h.r.w != nil || h.r == e.alone {
		return fmt.Errorf("%w: another goroutine waits for it", ErrRequest)
	}
	if err := v.Err(); err != nil {
		return err
	}
	if err := e.awaitRequest(h.r, v); err != nil {
		return err
	}
	_, err := h.resolve() // another goroutine's Test may have freed it
	return err
}

// emptyStatus is what waiting for an inactive request gives.
var emptyStatus = Status{Source: AnySource, Tag: AnyTag}

// Test reports whether the request is complete, and frees it if so. It makes
// progress. (MPI-4.1 chapter 3.7.3)
func (e *Engine) Test(h Request) (Status, bool, error) {
	e.enter()
	defer e.leave()
	r, err := h.resolve()
	if r == nil {
		return emptyStatus, err == nil, err
	}
	if r.phase != phaseDone {
		if a := e.abort.Load(); a != nil {
			return Status{}, false, a.err
		}
		e.flush()
		e.poll()
		if r.phase != phaseDone {
			e.missed()
			return Status{}, false, nil
		}
	}
	st, err := r.status, r.err
	e.freeRequest(r)
	return st, true, err
}

// missed is called when a caller has looked in vain and may look again at
// once. It lets other goroutines run now and then: a loop of calls that wait for
// nothing would keep its processor for as long as the scheduler allows, 10 ms,
// and what it waits for may need that processor. The lock is held.
func (e *Engine) missed() {
	if e.misses++; e.misses%16 == 0 {
		e.stepAside()
	}
}

// Done reports whether waiting for the request would return at once. It makes
// progress and frees nothing; a stale handle is done.
func (e *Engine) Done(h Request) bool {
	e.enter()
	defer e.leave()
	r, _ := h.resolve()
	if r != nil && r.phase != phaseDone {
		e.flush()
		e.poll()
		if r.phase != phaseDone {
			e.missed()
			r, _ = h.resolve()
		}
	}
	return r == nil || r.phase == phaseDone
}

// WaitAny waits until one of the requests is complete and returns its index;
// Test or Wait then frees it. Where several are, their turns rotate. It returns
// -1 if all are inactive, ErrRequest with the index of a stale one.
// (MPI-4.1 chapter 3.7.5)
func (e *Engine) WaitAny(rs []Request, v *View) (int, error) {
	e.enter()
	defer e.leave()
	if e.dirty != 0 {
		e.flush()
	}
	for {
		i, active, err := e.pick(rs)
		if i >= 0 || err != nil || active == 0 {
			return i, err
		}
		if err := v.Err(); err != nil {
			return -1, err
		}
		w := e.newWaiter()
		w.any = active
		for _, h := range rs {
			if h.r != nil {
				h.r.w = w
			}
		}
		err = e.await(w, v, new(spell))
		for _, h := range rs {
			if h.r != nil && h.r.w == w {
				h.r.w = nil
			}
		}
		e.freeWaiting(w)
		if err != nil {
			return -1, err
		}
	}
}

// pick returns the index of a complete request, -1 if there is none, and how
// many are active.
func (e *Engine) pick(rs []Request) (index, active int, err error) {
	index = -1
	e.rotate++
	for k := range rs {
		i := (k + e.rotate) % len(rs)
		r, err := rs[i].resolve()
		switch {
		case err != nil:
			return i, active, err
		case r == nil:
		case r.phase == phaseDone:
			return i, active, nil
		case r.w != nil || r == e.alone:
			return i, active, fmt.Errorf("%w: another goroutine waits for it", ErrRequest)
		default:
			active++
		}
	}
	return -1, active, nil
}
