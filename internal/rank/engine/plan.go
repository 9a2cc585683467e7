package engine

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Plan is an operation made of several messages: a collective in progress, or a send and a receive
// under one request. It is data. The caller inside the engine goes on with it. While no caller is
// inside, the background goroutine leads and is woken by arriving frames; it takes the lead at a
// tick (expect).
//
//	round 0: all its messages at once -> all over -> Do(0)
//	round 1: ...                                  -> Do(1)
//	...                                              the request is complete
//
// Do is called without the engine's lock, unless the plan is Brief, by a caller of the engine or by
// the background goroutine. A Do of the program (Foreign) may take long, wait, or call the library.
// It gets a goroutine of its own, as the caller that found it due may hold locks of the library. If
// anything fails, the messages that can still be given up are, the others are finished, and the
// request ends with the first error.
//
// A checkpoint finds a plan in the middle of a round, or of Do: both are memory. While the gate is closed no round
// begins.
//
// A Plan may be begun again after its request has ended. The caller does not change it while it runs, except Do,
// which may set the rounds to come.
type Plan struct {
	Ctx     uint64
	Rounds  []Round
	Do      func(round int) error // called after the messages of a round that asks for it; it must not panic
	Brief   bool                  // Do is short, not the program's, and makes no calls
	Foreign bool                  // Do is the program's
	Apart   bool                  // its messages have nothing to do with each other: if one fails, the others go on
	What    fmt.Stringer          // the call, for people
	Over    func()                // called when the plan is over, with the lock held; nil: nothing
	Open    *atomic.Int32         // if not nil: counts plans that have begun and are not over

	req     Request
	w       waiter // where the requests of a round end; its plan is this one
	at      int
	pending int // messages of the round that are not over
	err     error
	done    bool // Do was called for this round
	listed  bool // in Engine.steps
	forget  bool // its context was freed meanwhile
	next    *Plan
}

// Round is a set of messages that go at once, in their order.
type Round struct {
	Parts []Part
	Do    bool // Plan.Do follows
}

// Part is a message of a plan.
type Part struct {
	Peer   int
	Recv   bool
	Exact  bool // a receive: a shorter message is an error, too
	Late   bool // begins only with Release
	Sync   bool // a send: over only when a receive has matched it
	Tag    int32
	Type   *Type
	Buf    []byte
	Status Status // of a receive that is over
	Cut    bool   // of a receive that is over: the message was longer than Buf, which has its beginning

	r    *request
	over bool
}

// PartError is the error of a plan that says which of its messages has failed.
type PartError struct {
	What fmt.Stringer // the plan's
	Peer int
	Recv bool
	Err  error
}

func (e *PartError) Error() string {
	if e.Recv {
		return fmt.Sprintf("receiving from rank %d: %v", e.Peer, e.Err)
	}
	return fmt.Sprintf("sending to rank %d: %v", e.Peer, e.Err)
}

func (e *PartError) Unwrap() error { return e.Err }

// ErrShort is the error of an exact receive whose message is shorter.
var ErrShort = errors.New("message shorter than expected")

// planList is a list of plans with pending work.
type planList struct{ head, tail *Plan }

func (l *planList) push(p *Plan) {
	if p.next = nil; l.tail != nil {
		l.tail.next = p
	} else {
		l.head = p
	}
	l.tail = p
}

func (l *planList) pop() *Plan {
	p := l.head
	if l.head = p.next; l.head == nil {
		l.tail = nil
	}
	p.next = nil
	return p
}

// Begin begins a plan. Until its request is complete, the engine reads and writes the buffers of its messages.
// Errors: ErrRequest if the plan runs already, ErrPoisoned, ErrAborted.
func (e *Engine) Begin(p *Plan) (Request, error) {
	e.enter()
	h, err := e.beginPlan(p)
	e.leave()
	return h, err
}

func (e *Engine) beginPlan(p *Plan) (Request, error) {
	if err := e.aborted(); err != nil {
		return Request{}, err
	}
	if err := p.req.again(); err != nil {
		return Request{}, err
	}
	if err := e.poisoned[p.Ctx]; err != nil {
		return Request{}, err
	}
	r := e.newRequest(AnySource, p.Ctx, 0, nil, nil)
	r.phase, r.long, r.plan = phaseComposed, true, p
	e.waiting.add(r)
	h := r.handle()
	p.req, p.w.plan, p.at, p.pending, p.err, p.done, p.forget = h, p, -1, 0, nil, true, false
	if p.Open != nil {
		p.Open.Add(1)
	}
	e.expecting++
	e.goOn(p)
	if r.phase != phaseDone {
		e.expect()
	}
	return h, nil
}

// Last is the request of the last time that the plan was begun.
func (p *Plan) Last() Request { return p.req }

// Lives reports whether a request is not ended yet.
func (e *Engine) Lives(h Request) bool {
	e.enter()
	defer e.leave()
	r, err := h.resolve()
	return r != nil && err == nil
}

// goOn goes on with a plan whose round's messages are over.
func (e *Engine) goOn(p *Plan) {
	for {
		if p.err == nil && !p.done && p.Rounds[p.at].Do {
			if p.Foreign {
				go e.operate(p)
				return
			}
			if !p.Brief {
				e.works.push(p)
				e.due++
				return
			}
			p.err = p.Do(p.at)
		}
		p.at++
		if p.err != nil || p.at == len(p.Rounds) {
			e.endPlan(p)
			return
		}
		p.done = false
		if e.beginRound(p); p.pending != 0 || p.listed {
			return
		}
		e.endRound(p)
	}
}

// beginRound begins the messages of a round.
func (e *Engine) beginRound(p *Plan) {
	parts := p.Rounds[p.at].Parts
	for i := range parts {
		m := &parts[i]
		if m.r, m.over, m.Cut = nil, false, false; m.Late {
			p.pending++
		} else if p.err == nil || p.Apart {
			e.beginPart(p, m)
		}
	}
	if p.err != nil {
		e.giveUp(p)
	}
}

func (e *Engine) beginPart(p *Plan, m *Part) {
	var err error
	if m.Recv {
		if err = e.checkRecv(m.Peer, p.Ctx, m.Tag); err == nil {
			m.r = e.startRecv(e.newRequest(m.Peer, p.Ctx, m.Tag, m.Type, m.Buf))
		}
	} else if err = e.checkSend(m.Peer, p.Ctx, m.Tag); err == nil && m.Peer != ProcNull {
		if m.Sync {
			m.r = e.startSend(e.newRequest(m.Peer, p.Ctx, m.Tag, m.Type, m.Buf), Synchronous)
		} else {
			m.r = e.startMove(m.Peer, p.Ctx, m.Tag, m.Type, m.Buf)
		}
	}
	switch {
	case err != nil:
		p.err, m.over = &PartError{p.What, m.Peer, m.Recv, err}, true
	case m.r == nil:
		m.over = true
	default:
		m.r.blocking = true // no caller owns it
		if m.r.phase != phaseDone {
			m.r.w = &p.w
			p.pending++
			return
		}
		e.endPart(p, m)
	}
}

// endPart takes the result of a message.
func (e *Engine) endPart(p *Plan, m *Part) {
	r := m.r
	err := r.err
	if m.Recv {
		m.Status, m.Cut = r.status, errors.Is(err, ErrTruncate)
		if err == nil && m.Exact && m.Status.Bytes != len(m.Buf) {
			err = fmt.Errorf("%w: %d bytes, %d are expected", ErrShort, m.Status.Bytes, len(m.Buf))
		}
	}
	m.r, m.over = nil, true
	e.freeRequest(r)
	if err != nil && p.err == nil {
		p.err = &PartError{p.What, m.Peer, m.Recv, err}
	}
}

// endRound takes the results of all messages of a round.
func (e *Engine) endRound(p *Plan) {
	parts := p.Rounds[p.at].Parts
	for i := range parts {
		if m := &parts[i]; m.r != nil {
			e.endPart(p, m)
		}
	}
}

// partOver records that a message of a plan is over. It may be called from within a module, and
// leaves the rest to stepPlans.
func (e *Engine) partOver(p *Plan, r *request) {
	p.pending--
	if p.pending == 0 || r.err != nil {
		e.enlistPlan(p)
	}
}

func (e *Engine) enlistPlan(p *Plan) {
	if !p.listed {
		p.listed = true
		e.steps.push(p)
		e.due++
	}
}

// stepPlans goes on with the plans whose messages are over, or of which one has failed. The gate is open.
func (e *Engine) stepPlans() {
	for e.steps.head != nil {
		p := e.steps.pop()
		p.listed = false
		e.due--
		parts := p.Rounds[p.at].Parts
		for i := range parts {
			if m := &parts[i]; p.err == nil && m.r != nil && m.r.phase == phaseDone && m.r.err != nil {
				e.endPart(p, m)
			}
		}
		if p.err != nil {
			e.giveUp(p)
		}
		if p.pending == 0 {
			e.endRound(p)
			e.goOn(p)
		}
	}
}

// giveUp withdraws the messages that a failed plan still waits for. Messages under way go on to
// their end.
func (e *Engine) giveUp(p *Plan) {
	if p.Apart {
		return
	}
	parts := p.Rounds[p.at].Parts
	for i := range parts {
		m := &parts[i]
		switch {
		case m.over:
		case m.r == nil:
			if m.over = true; m.Late {
				p.pending--
			}
		case m.r.phase != phaseDone && e.abandon(m.r):
			m.r, m.over = nil, true
			p.pending--
		}
	}
}

// work calls a plan's Do without the lock, which is held on entry and on return.
func (e *Engine) work() {
	p := e.works.pop()
	e.due--
	e.mu.unlock()
	err := p.Do(p.at)
	e.mu.lock()
	p.err, p.done = err, true
	e.goOn(p)
}

// operate is work for a Do of the program, on a goroutine of its own.
func (e *Engine) operate(p *Plan) {
	err := errExited
	defer func() {
		e.enter()
		p.err, p.done = err, true
		e.goOn(p)
		e.flush()
		e.leave()
	}()
	err = p.Do(p.at)
}

var errExited = errors.New("the goroutine of the operator has ended")

// endPlan ends the request of a plan.
func (e *Engine) endPlan(p *Plan) {
	e.expecting--
	if p.Open != nil {
		p.Open.Add(-1)
	}
	if p.Over != nil {
		p.Over()
	}
	r := p.req.r
	if bytes := 0; len(p.Rounds) > 0 {
		for i := range p.Rounds[len(p.Rounds)-1].Parts {
			if m := &p.Rounds[len(p.Rounds)-1].Parts[i]; m.Recv && m.over { // all bytes of the last round together
				bytes += m.Status.Bytes
				r.status = m.Status
			}
		}
		r.status.Bytes = bytes
	}
	r.recv = true // it has a status
	e.complete(r, p.err)
	if p.forget {
		e.forgetContext(p.Ctx)
	}
}

// single reports whether a plan in progress is one receive.
func (p *Plan) single() bool {
	return len(p.Rounds) == 1 && len(p.Rounds[0].Parts) == 1 && p.Rounds[0].Parts[0].Recv
}

// Release begins messages of a plan's present round that are Late, by their index. Errors: ErrRequest if the
// request is not that of a plan in progress, or if a message is not Late or was released before.
func (e *Engine) Release(h Request, parts ...int) error {
	e.enter()
	defer e.leave()
	r, err := h.resolve()
	if err != nil {
		return err
	}
	if r == nil || r.plan == nil {
		return fmt.Errorf("%w: it has no parts", ErrRequest)
	}
	p := r.plan
	if r.phase == phaseDone {
		if r.err != nil {
			return nil // Wait tells why
		}
		return fmt.Errorf("%w: all its parts were begun before", ErrRequest)
	}
	for _, i := range parts {
		if p.err != nil {
			return nil // Wait tells why
		}
		if err := e.release(p, i); err != nil {
			return err
		}
	}
	return nil
}

// release begins a message of a plan that is Late. The plan goes on even if the next one to be released is refused.
func (e *Engine) release(p *Plan, i int) error {
	m := p.part(i)
	switch {
	case m == nil || !m.Late:
		return fmt.Errorf("%w: it has no part %d", ErrRequest, i)
	case m.r != nil || m.over:
		return fmt.Errorf("%w: part %d was begun before", ErrRequest, i)
	}
	e.beginPart(p, m)
	p.pending-- // as a late one; beginPart has counted it if it is under way
	if p.pending == 0 || p.err != nil {
		e.enlistPlan(p)
	}
	return nil
}

// part returns a message of the present round, nil if there is none.
func (p *Plan) part(i int) *Part {
	if uint(p.at) >= uint(len(p.Rounds)) || uint(i) >= uint(len(p.Rounds[p.at].Parts)) {
		return nil
	}
	return &p.Rounds[p.at].Parts[i]
}

// Arrived reports whether a message of a plan's given round is over. It makes progress. Errors: ErrRequest if
// the request has ended, ErrAborted.
func (e *Engine) Arrived(h Request, round int, parts ...int) (bool, error) {
	e.enter()
	defer e.leave()
	r, err := h.resolve()
	if r == nil || err != nil || r.plan == nil {
		return false, errors.Join(err, ErrRequest)
	}
	p := r.plan
	if r.phase != phaseDone && p.at <= round {
		if err := e.aborted(); err != nil {
			return false, err
		}
		e.flush()
		e.poll()
	}
	switch {
	case r.phase == phaseDone || p.at > round:
		return true, nil
	case p.at < round:
		e.missed()
		return false, nil
	}
	for _, i := range parts {
		m := p.part(i)
		if m == nil {
			return false, fmt.Errorf("%w: it has no part %d", ErrRequest, i)
		}
		if !m.over && (m.r == nil || m.r.phase != phaseDone) {
			e.missed()
			return false, nil
		}
	}
	return true, nil
}

// Pledge makes a request that Fulfil completes.
func (e *Engine) Pledge() (Request, error) {
	e.enter()
	defer e.leave()
	if err := e.aborted(); err != nil {
		return Request{}, err
	}
	r := e.newRequest(AnySource, 0, 0, nil, nil)
	r.phase = phasePledged
	return r.handle(), nil
}

// Fulfil completes a request made by Pledge. Errors: ErrRequest if it is complete or was ended.
func (e *Engine) Fulfil(h Request, s Status, err error) error {
	e.enter()
	defer e.leave()
	r, rerr := h.resolve()
	if rerr != nil {
		return rerr
	}
	if r == nil || r.phase != phasePledged {
		return fmt.Errorf("%w: it was completed before", ErrRequest)
	}
	r.status, r.recv = s, true
	e.complete(r, err)
	return nil
}

// Notify returns a channel that is closed when the request is complete, or the job was aborted. The channel of a request
// that was ended is closed. A goroutine that waits for the channel need not call the engine.
func (e *Engine) Notify(h Request) <-chan struct{} {
	e.enter()
	defer e.leave()
	r, err := h.resolve()
	if r == nil || err != nil || r.phase == phaseDone || e.abort.Load() != nil {
		return closed
	}
	if c := e.told[r]; c != nil {
		return c
	}
	e.flush() // this is a wait
	if r.phase == phaseDone {
		return closed
	}
	c := make(chan struct{})
	if e.told == nil {
		e.told = make(map[*request]chan struct{})
	}
	e.told[r] = c
	r.after |= afterTell
	e.expecting++
	e.expect()
	return c
}

// tell closes the channel of a request that is over.
func (e *Engine) tell(r *request) {
	r.after &^= afterTell
	close(e.told[r])
	delete(e.told, r)
	e.expecting--
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
