package sim

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"
)

// caller is the goroutine of a rank's program that makes the calls that block: Send,
// Recv, Together, turns of teams. It runs when the simulator says so, which meanwhile
// stands still, up to where it sleeps in the engine (module.Wait) or is through. So one
// of both runs at a time, and a seed decides which one; except for what a closing gate wakes,
// which goes to the gate and waits there for it to open.
type caller struct {
	where  callerPlace
	thread *thread
	turn   bool          // it takes a turn of a team
	goOn   chan struct{} // to it
	rests  chan struct{} // from it
	over   bool
	toGate bool // Wake lets it go on at once: the gate is closing
	ended  bool // it is to end when it next comes to rest
	failed any  // what it panicked with
}

type callerPlace uint8

const (
	nowhere callerPlace = iota // there is none
	asleep                     // in Wait
	outside                    // between two calls
	atGate
)

// calls lets the rank's caller begin something that the simulator then waits for.
func (r *rank) calls(t *thread, do func()) {
	c := &r.caller
	if c.goOn == nil {
		c.goOn, c.rests = make(chan struct{}), make(chan struct{})
	}
	c.thread, c.over, t.calling = t, false, true
	r.w.seen.calls++
	r.mod.runs()
	go func() {
		defer func() {
			if x := recover(); x != nil {
				if _, expected := x.(violation); !expected {
					x = fmt.Sprintf("%v\n%s", x, debug.Stack())
				}
				c.failed = x
			}
			c.over = true
			c.rests <- struct{}{}
		}()
		do()
	}()
	r.awaitRest()
}

// runs is called before the caller goes on.
func (m *module) runs() {
	m.armed, m.woken = false, false
	m.inCall, m.looks = true, 1+m.f.w.rng.IntN(3)
}

// awaitRest returns when the caller sleeps or is through.
func (r *rank) awaitRest() {
	c := &r.caller
	<-c.rests
	r.mod.inCall = false
	if c.over {
		c.thread.calling = false
		c.where, c.thread, c.turn = nowhere, nil, false
	}
	if c.failed != nil {
		panic(c.failed)
	}
}

// resume lets it go on, if there is a reason to.
func (r *rank) resume() {
	c := &r.caller
	if c.where == asleep && !r.mod.stirs() && (r.w.plan.strict || r.w.rng.IntN(8) > 0) {
		return
	}
	r.mod.runs()
	c.goOn <- struct{}{}
	r.awaitRest()
}

// rest is called by the caller itself.
func (c *caller) rest(where callerPlace) {
	if !c.ended {
		c.where = where
		c.rests <- struct{}{}
		<-c.goOn
	}
	if c.ended {
		runtime.Goexit()
	}
}

// closeGate closes the rank's gate; a caller that sleeps goes there.
func (r *rank) closeGate() {
	c := &r.caller
	c.toGate = c.where == asleep
	r.e.CloseGate()
	c.toGate = false
}

// openGate opens it, and lets a caller that waits there go on.
func (r *rank) openGate() {
	if !r.e.GateClosed() || r.caller.where != atGate {
		r.e.OpenGate()
		return
	}
	r.mod.runs()
	r.e.OpenGate()
	r.awaitRest()
}

// quiesce follows closeGate.
func (r *rank) quiesce() {
	if r.w.breaks(boardNotSaved) {
		r.mod.Quiesce()
		return
	}
	r.e.Quiesce()
}

// abandon ends a caller whose incarnation is over. With the world in order also one
// at the gate is ended; else the engine's lock may be held.
func (r *rank) abandon(inOrder bool) {
	c := &r.caller
	c.ended = true
	switch {
	case c.where == asleep || c.where == outside:
		c.goOn <- struct{}{}
	case c.where == atGate && inOrder:
		r.e.OpenGate()
	default:
		return
	}
	<-c.rests
	c.where = nowhere
}

// Wait is where a caller sleeps. The simulator goes on.
func (m *module) Wait(time.Duration) {
	m.f.w.ranks[m.rank].caller.rest(asleep)
}

// Wake ends the sleep.
func (m *module) Wake() {
	c := &m.f.w.ranks[m.rank].caller
	switch {
	case c.toGate:
		c.toGate, c.where = false, atGate
		m.armed, m.woken = false, false
		c.goOn <- struct{}{}
	case c.where == atGate: // it is on its way there, and has been woken
	case !m.f.w.breaks(wakeLost):
		m.woken = true
	}
}

// Yield has nobody to yield to: the simulator goes on when a caller sleeps.
func (m *module) Yield() {}

// Arm lets a caller sleep. If something has come, it may also look again.
func (m *module) Arm() bool {
	if m.armed = true; m.inCall && !m.gone && m.f.w.rng.IntN(8) == 0 && m.stirs() {
		m.armed, m.looks = false, 2
		return false
	}
	return true
}

// stirs reports whether a Poll might do something, or somebody has woken the rank.
func (m *module) stirs() bool {
	if m.woken || len(m.downs)+len(m.asked) > 0 {
		return true
	}
	for _, c := range m.arriving {
		if len(c.wire)+len(c.puts) > 0 || c.unread() || c.state == connSyn {
			return true
		}
	}
	for _, c := range m.sending {
		if len(c.batch)+len(c.rest)+len(c.held)+len(c.puts) > 0 || c.refused ||
			c.state == connSyn || c.state == connAccepted || !m.f.w.ranks[c.to].alive {
			return true
		}
	}
	return false
}
