package head

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
)

// The head drives the machine of package joblife, which makes every decision. The head feeds it
// events, and carries out its actions.

// verdict is why the job ends, and with which exit status.
type verdict = joblife.Verdict

// feed feeds the machine one event and carries out the actions. Events that come meanwhile
// are fed afterwards.
func (h *head) feed(ev joblife.Event) {
	h.due = append(h.due, ev)
	if h.stepping {
		return
	}
	h.stepping = true
	defer func() { h.stepping = false }()
	for len(h.due) > 0 {
		ev := h.due[0]
		h.due = h.due[1:]
		for _, a := range h.job.Step(ev) {
			h.do(&a)
		}
	}
	if !h.job.Steady() {
		h.auto.unsteady(time.Now())
	}
	if inc := h.inc; inc != nil && inc.giveUp != nil && !h.job.Steady() {
		inc.giveUp() // the start of its agents
		inc.giveUp = nil
	}
}

func (h *head) do(a *joblife.Action) {
	switch a.Type {
	case joblife.ActBegin:
		h.begin(a.Life)
	case joblife.ActOrder:
		h.life(a.Life).prepare()
	case joblife.ActSend:
		inc := h.life(a.Life)
		inc.passed(a.Msg.Kind)
		inc.send(a.Agent, a.Msg)
	case joblife.ActKill:
		h.life(a.Life).links[a.Agent].agent.Kill()
	case joblife.ActTimer:
		h.timers[a.Timer] = h.after(time.Duration(a.Millis)*time.Millisecond, func() {
			delete(h.timers, a.Timer)
			h.feed(joblife.Event{Type: joblife.EvTimeout, Timer: a.Timer})
		})
	case joblife.ActStopTimer:
		if t := h.timers[a.Timer]; t != nil {
			t.Stop()
			delete(h.timers, a.Timer)
		}
	case joblife.ActCkpt:
		h.life(a.Life).act(&a.Ckpt)
	case joblife.ActConnected:
		h.connected()
	case joblife.ActUp:
		h.allUp(a.Life)
		h.auto.up(a.Life, time.Now(), h.fleet)
		h.inc.phase()
		h.planNext()
		h.tend()
	case joblife.ActJoin:
		h.life(a.Life).join(a)
	case joblife.ActRestore:
		h.life(a.Life).restoreMoved(&a.Ckpt)
	case joblife.ActSwitch:
		h.life(a.Life).switches(a.Back)
	case joblife.ActMoved:
		h.life(a.Life).moves = true
		h.life(a.Life).moved(a)
	case joblife.ActHeld:
		h.waiters.answerOrder(a.ID, a.Text)
	case joblife.ActSuspended:
		h.limit.stop()
		h.verbose("suspended: the ranks are stopped")
	case joblife.ActResumed:
		h.limit.start()
		h.verbose("resumed")
	case joblife.ActSay:
		if a.Detail {
			h.verbose("%s", a.Text)
		} else {
			h.say("%s", a.Text)
		}
	case joblife.ActLeaveOut:
		h.life(a.Life).links[a.Agent].leaveOut(h, errors.New(a.Text))
	case joblife.ActChoose:
		h.choose(a.Left)
	case joblife.ActVerdict:
		if h.inc != nil {
			h.inc.sayUnreceived()
		}
		switch h.result = a.Verdict; {
		case h.result == verdict{Rank: -1}:
			h.storage.Finish()
		case h.result.Last > 0:
			h.result.Text = fmt.Sprintf("job %s is checkpointed and stopped; it goes on with: %s", h.id, h.restart(string(h.inc.store.last.Schema)))
		}
		h.clean()
		h.feed(joblife.Event{Type: joblife.EvCleaned})
	case joblife.ActEnd:
		h.over = true
	}
}

// restart is the command that goes on from a snapshot.
func (h *head) restart(schema string) string {
	command, where, joined := "gorun restart ", h.opt.Where, strings.Join(h.joined, ",")
	if joined != "" && h.opt.Hosts != "" {
		where = strings.Replace(where, h.opt.Hosts, h.opt.Hosts+","+joined, 1)
		joined = ""
	}
	if where != "" {
		command += where + " "
	}
	command += schema
	if joined != "" {
		command += "\n(without what has joined by gorun join -hosts: " + joined + ")"
	}
	return command
}

// life returns the incarnation with that number.
func (h *head) life(n int) *incarnation { return h.lives[n-1] }

// begin begins an incarnation.
func (h *head) begin(life int) {
	inc, err := newIncarnation(h, life, h.next)
	h.inc = inc
	h.lives = append(h.lives, inc)
	if !inc.wholeFrom() { // otherwise this is done when the ranks are let go: a restart that fails leaves the files as they were
		inc.beginOutput()
	}
	if inc.comesBack() {
		inc.sayAgain()
	}
	if life > 1 {
		h.dropSwaps(h.everybody(), "was restarted")
		h.auto.again()
	}
	if err != nil {
		inc.begun(nil, err)
		return
	}
	inc.muster()
}

// startBuild builds the program, once, beside the loop.
func (h *head) startBuild() {
	if h.prog.IsSource() && !h.prog.Built() && !h.building {
		h.building = true
		go h.build()
	}
}

// build builds the program. It runs to its end even if the incarnation ends before.
func (h *head) build() {
	err := h.prog.Build()
	h.post(func() {
		h.building = false
		ev := joblife.Event{Type: joblife.EvProgram}
		if err != nil {
			ev.Verdict = h.verdictOf(err)
		}
		h.feed(ev)
	})
}

// finish ends the job because the user or a command says so: no restart follows.
func (h *head) finish(v verdict, polite bool) {
	if h.job != nil {
		h.feed(joblife.Event{Type: joblife.EvFinish, Verdict: &v, Polite: polite})
	}
}

// fail ends an incarnation for a reason of the head's own.
func (inc *incarnation) fail(v *verdict) {
	inc.h.feed(joblife.Event{Type: joblife.EvFail, Life: inc.n, Verdict: v, Polite: true})
}

// step feeds the checkpoint machine a result of the storage.
func (inc *incarnation) step(ev ckpt.HeadEvent) {
	inc.h.feed(joblife.Event{Type: joblife.EvCkpt, Life: inc.n, Ckpt: ev})
}
