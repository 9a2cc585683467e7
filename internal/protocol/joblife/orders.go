package joblife

import (
	"fmt"
	"syscall"
)

// An order to end the job is obeyed. A second order is final, and so is the first one after a
// while.
//
//	first order    ranks get a signal, and may end as they like: endMillis after gorun kill and -timeout,
//	               politeMillis after ^C, Config.GraceMillis after SIGTERM, SIGHUP and SIGQUIT
//	second order   all ranks are killed
//	               and nobody waits for the storage any more: not for a commit, nor for the choice of a snapshot
//
// The storage is waited for as long as Config.GraceMillis after a first order of any kind.

const (
	politeMillis = 3000 // that ranks have after ^C
	graceMillis  = 8000 // and after other signals, if the configuration does not say
)

// ordered notes an order to end the job, which is why it ends if ranks have to be killed. It reports whether it is the
// first one; a second one is carried out here.
func (j *Job) ordered(v *Verdict) bool {
	if j.told != 0 || j.end != nil {
		j.final()
		return false
	}
	j.order, j.patience = v, j.after(j.cfg.GraceMillis, j.final)
	return true
}

// final kills what there is of the ranks, and ends the job without the storage. If all ranks have
// ended by themselves, their end is that of the job.
func (j *Job) final() {
	j.stop(j.patience)
	j.obeyed = true
	l := j.life
	if j.end == nil && (!l.begun || !l.over()) {
		j.end = j.order
	}
	if j.end != nil {
		l.end(j.end, false)
	}
	if v := j.choosing; v != nil {
		j.choosing = nil
		if v = j.asTold(v); j.end != nil {
			v = j.end
		}
		j.judge(v)
	}
	j.unpark()
	j.finished()
}

// killAgents kills agents that do not leave although they have nothing left to do.
func (j *Job) killAgents() {
	for _, l := range j.lives {
		for _, k := range l.links {
			if j.cleaned && !k.gone {
				l.act(Action{Type: ActKill, Agent: k.index})
			}
		}
	}
}

// finish ends the job on request from outside: no restart follows.
func (j *Job) finish(v *Verdict, polite bool) {
	if j.end == nil {
		j.end = v
	}
	j.life.end(v, polite)
}

// last ends the job with the snapshot that was asked to be its last. It is committed, so a later
// death changes nothing: a new life would only be ended.
func (j *Job) last(seq int) {
	if j.end != nil { // two have asked for it
		return
	}
	j.finish(&Verdict{Code: j.cfg.Stopped, Rank: -1, Last: seq, Text: "the job is checkpointed and stopped"}, false)
}

// interrupt ends the job. The first time the ranks get the signal and a moment.
func (j *Job) interrupt() {
	l := j.life
	v := &Verdict{Code: SignalBase + int(syscall.SIGINT), Rank: -1, Text: "interrupted"}
	if !j.ordered(v) {
		return
	}
	j.told, j.end = syscall.SIGINT, v
	j.state = "ending"
	if l.ending == nil {
		l.ending = v
		l.moveEnds(v)
	}
	if l.count[Spawned] < j.cfg.Size {
		l.kill()
		return
	}
	j.say("interrupted: the ranks end; once more kills them")
	l.signal(syscall.SIGINT)
	l.signal(syscall.SIGCONT)
	l.after(politeMillis, l.kill)
}

// terminate passes on a signal that tells the ranks to end. Their reaction determines how the job
// ends. v is the verdict if there are no ranks yet, or if they have to be killed.
func (j *Job) terminate(sig syscall.Signal, v *Verdict) {
	l := j.life
	killed := *v
	killed.Text = fmt.Sprintf("%s; the ranks did not end by themselves and were killed", v.Text)
	if !j.ordered(&killed) {
		return
	}
	j.told = sig
	if l.count[Spawned] < j.cfg.Size && !l.switching() {
		j.finish(v, false)
		return
	}
	l.signalInMove(sig)
	if j.pauses.state == suspended {
		j.wake()
		return
	}
	l.signalInMove(syscall.SIGCONT) // a stopped rank would not notice
}
