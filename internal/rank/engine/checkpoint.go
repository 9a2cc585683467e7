package engine

import "time"

// CloseGate keeps callers out of the engine and returns when no caller is inside. A caller that
// waits in a call is outside, and goes on with that call after OpenGate.
//
// The caller of CloseGate owns the engine until OpenGate. Only it may call the methods of the
// checkpoint side: Quiesce, Step, Quiet, WaitStep, Sent, Received, Saved, Restarted, and those of
// Closer. All other methods are the callers'. They wait for the gate, so the closer must not call
// them. One goroutine at a time closes gates. CloseGate does nothing if the gate is closed.
func (e *Engine) CloseGate() {
	if !Checkpointing {
		panic("engine: CloseGate in a program built with the tag gorun_nocr")
	}
	if e.mu.gate() {
		return
	}
	e.mu.close()
	for e.inWait.Load() { // the leader sleeps outside the lock; the Waiter is ours now
		e.waiter.Wake()
		<-e.mu.left
	}
}

// OpenGate tells the modules that the job goes on, acts upon channels lost meanwhile, sends
// frames that were held back and lets callers in. It does nothing if the gate is open.
func (e *Engine) OpenGate() {
	if !e.mu.gate() {
		return
	}
	for _, m := range e.modules {
		m.Continue()
	}
	e.failDowns()
	if e.pump(true) || e.due != 0 {
		e.leaveWork()
	}
	e.mu.open()
}

// GateClosed reports whether the gate is closed.
func (e *Engine) GateClosed() bool { return e.mu.gate() }

// Quiesce tells the modules that the gate has closed.
func (e *Engine) Quiesce() {
	for _, m := range e.modules {
		m.Quiesce()
	}
	e.teams.Save()
}

// Step makes receive progress, pushes on frames that the modules have accepted,
// and reports whether anything moved. Replies to what arrives, and frames not
// yet accepted, wait for OpenGate.
func (e *Engine) Step() bool {
	for _, m := range e.modules {
		m.Flush()
	}
	e.dirty = 0
	return e.poll()
}

// Quiet reports whether all that the modules accepted has left, and no handshake or direct write
// is in progress. Then Sent is final.
func (e *Engine) Quiet() bool {
	for _, m := range e.modules {
		if !m.Quiet() {
			return false
		}
	}
	return true
}

// WaitStep sleeps until something may have arrived, at most for d (d < 0: no
// limit).
func (e *Engine) WaitStep(d time.Duration) {
	if e.arm() {
		e.waiter.Wait(d)
	}
}

// Sent returns the bytes sent, by peer, as Header.Counted counts them. The
// slice is the engine's own: exact while the gate is closed, not to be changed.
func (e *Engine) Sent() []uint64 { return e.sent }

// Received returns the bytes received, like Sent.
func (e *Engine) Received() []uint64 { return e.received }

// Closer has Pending and Blocked for the closer of the gate, which may not call the engine's.
type Closer struct{ e *Engine }

// Closer is for the closer of the gate, while it is closed.
func (e *Engine) Closer() Closer { return Closer{e} }

// Pending is Engine.Pending.
func (c Closer) Pending() []string { return c.e.pending() }

// Blocked is Engine.Blocked.
func (c Closer) Blocked() string { return c.e.blockedFor() }
