package joblife

import (
	"syscall"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// A user keeps checkpoints off (hold) or stops all ranks for a while (suspend). Both belong to the
// job, not to one of its lives: a life that begins during a hold begins held, and no life begins
// while the job is suspended.
//
//	EvSuspend -> held, at the latest when gates are open -> SIGSTOP -> agents answer -> ActHeld, suspended
//	EvResume  -> SIGCONT -> released, ActHeld
//
// While ranks are suspended no deadline counts: not that of an attempt whose images are being written, not that
// of ranks that come back, and not the driver's (ActSuspended). Agents go on to answer pings.
type pauses struct {
	holder string // who holds; "": nobody
	state  suspension
	id     uint64   // of the EvSuspend to be answered
	deaf   int      // agents that have not reported that their ranks are stopped
	parked *Verdict // a restart that waits until the job is resumed
}

type suspension uint8

const (
	runs suspension = iota
	stopping
	suspended
)

// suspender is the holder while the job is suspended.
const suspender = "gorun suspend: the job is suspended, gorun resume lets it go on"

// hold takes EvHold and EvRelease. Two holds have the same effect as one.
func (j *Job) hold(ev *Event) {
	p := &j.pauses
	if ev.Type == EvRelease {
		if p.holder == "" {
			j.refuseHold(ev.ID, "it is not held by gorun hold")
			return
		}
		p.holder = ""
		j.life.step(ckpt.HeadEvent{Type: ckpt.HvRelease, Holder: ckpt.ByCommand})
		j.act(Action{Type: ActHeld, ID: ev.ID})
		return
	}
	if p.holder == "" {
		p.holder = ev.Text
	}
	if j.life.ckpt == nil {
		j.act(Action{Type: ActHeld, ID: ev.ID}) // the life begins held
		return
	}
	j.life.step(ckpt.HeadEvent{Type: ckpt.HvHold, Holder: ckpt.ByCommand, Err: p.holder, Request: ckpt.Request{ID: ev.ID}})
}

// beginHeld makes a life begin as the job is held.
func (l *life) beginHeld() {
	if who := l.j.pauses.holder; who != "" {
		l.step(ckpt.HeadEvent{Type: ckpt.HvHold, Holder: ckpt.ByCommand, Err: who})
	}
}

func (j *Job) refuseHold(id uint64, why string) {
	j.act(Action{Type: ActHeld, ID: id, Text: why})
}

// held takes the checkpoint machine's answer to a hold.
func (l *life) held(a *ckpt.HeadAction) {
	p := &l.j.pauses
	switch {
	case a.Holder == ckpt.BySuspended:
		if p.state == stopping && a.Done.Err == "" {
			l.stopRanks()
		}
	case a.Done.ID != 0:
		l.j.act(Action{Type: ActHeld, ID: a.Done.ID, Text: a.Done.Err})
	}
}

// suspend begins to stop the ranks.
func (j *Job) suspend(id uint64) {
	l, p := j.life, &j.pauses
	switch {
	case p.state != runs:
		j.refuseHold(id, "it is suspended already")
	case l.ending != nil || l.closing:
		j.refuseHold(id, "the job is ending")
	case l.standing():
		j.refuseHold(id, "ranks are being moved: try again when they are up")
	case l.count[Spawned] < j.cfg.Size || l.back.waits():
		j.refuseHold(id, "not all its ranks are started: try again")
	default:
		p.state, p.id = stopping, id
		l.step(ckpt.HeadEvent{Type: ckpt.HvHold, Holder: ckpt.BySuspended, Err: suspender, Request: ckpt.Request{ID: id}})
	}
}

// pingStopped marks pings that ask whether an agent has stopped its ranks.
const pingStopped = 1

// stopRanks stops the ranks. No gate is closed. Agents answer in the order in which they are told.
func (l *life) stopRanks() {
	p := &l.j.pauses
	l.signal(syscall.SIGSTOP)
	p.deaf = 0
	for _, k := range l.links {
		k.stopped = false
		if !k.ended {
			p.deaf++
			l.send(k, oob.Msg{Kind: oob.Ping, To: oob.AgentAddr(k.index), A: pingStopped})
		}
	}
	l.step(ckpt.HeadEvent{Type: ckpt.HvPause})
}

// hasStopped takes an agent's answer.
func (l *life) hasStopped(k *link) {
	p := &l.j.pauses
	if p.deaf == 0 || k.stopped {
		return
	}
	k.stopped = true
	if p.deaf--; p.deaf > 0 || p.state != stopping {
		return
	}
	p.state = suspended
	l.j.state = "suspended"
	l.j.act(Action{Type: ActSuspended})
	l.j.act(Action{Type: ActHeld, ID: p.id})
}

// resume lets the ranks go on, and begins a restart that has waited for it.
func (j *Job) resume(id uint64) {
	p := &j.pauses
	if p.state != suspended {
		j.refuseHold(id, "it is not suspended")
		return
	}
	j.wake()
	j.act(Action{Type: ActHeld, ID: id})
	j.goOn()
}

// goOn begins the waiting restart, when the job is not suspended and nothing is being stored.
func (j *Job) goOn() {
	p := &j.pauses
	if v := p.parked; v != nil && p.state == runs && j.works == 0 {
		p.parked = nil
		j.again(v)
	}
}

// wake lets suspended ranks go on.
func (j *Job) wake() {
	l := j.life
	if j.pauses.state != suspended {
		return
	}
	j.endSuspension("")
	if l.closing {
		return // there are none
	}
	if l.ending == nil {
		j.state = "running"
	}
	l.signal(syscall.SIGCONT)
	l.step(ckpt.HeadEvent{Type: ckpt.HvGoOn})
	l.step(ckpt.HeadEvent{Type: ckpt.HvRelease, Holder: ckpt.BySuspended})
}

// endSuspension is called when the job is resumed, and, with a reason, when it ends.
func (j *Job) endSuspension(why string) {
	p := &j.pauses
	switch p.state {
	case stopping:
		j.refuseHold(p.id, why)
	case suspended:
		j.act(Action{Type: ActResumed})
	}
	p.state = runs
}

// endStopping gives up a suspension that is incomplete when its life ends.
func (j *Job) endStopping() {
	if j.pauses.state == stopping {
		j.endSuspension("the job is ending, or about to begin again")
	}
}

// park postpones a restart until the job is resumed. It reports whether it does.
func (j *Job) park(v *Verdict) bool {
	p := &j.pauses
	if p.state != suspended {
		return false
	}
	p.parked = v
	j.state = "suspended"
	j.say("%s; the job is suspended: it begins again when it is resumed", v.Text)
	return true
}

// unpark ends a job whose restart waits, because a user wants it ended.
func (j *Job) unpark() {
	if v := j.pauses.parked; v != nil && (j.end != nil || j.told != 0) {
		j.pauses.parked = nil
		j.endSuspension("")
		if j.end != nil {
			v = j.end
		}
		j.judge(v)
	}
}

// Held names the holder that keeps checkpoints off, "" if there is none.
func (j *Job) Held() string {
	l := j.life
	if l == nil || l.ckpt == nil || l.ending != nil || l.closing {
		return ""
	}
	return l.ckpt.Held()
}

// Suspended reports whether the ranks are stopped, or a restart waits until the job is resumed.
func (j *Job) Suspended() bool { return j.pauses.state == suspended }
