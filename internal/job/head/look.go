package head

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/rank/waitreport"
)

// The head asks ranks what they wait for, over the out-of-band channel, when a user wants to know.
// Each rank answers in a goroutine of its own, so a rank whose program or checkpoint hangs still
// answers. The agent answers for a stopped rank.

// question is a question to some ranks that is not answered yet.
type question struct {
	inc   *incarnation
	ranks []int
	infos []*waitreport.Info // by index in ranks; nil: no answer
	at    map[int]int        // of ranks
	open  int                // answers that are missing
	timer *time.Timer
	done  func([]*waitreport.Info)
}

// look asks ranks. It calls done with their answers, in the order of ranks, when all are there or
// the time is over. A rank that cannot be asked, because it has not begun or has ended, is
// described by its phase.
func (h *head) look(what uint64, ranks []int, done func([]*waitreport.Info)) {
	h.lookWith(what, nil, ranks, done)
}

func (h *head) lookWith(what uint64, data []byte, ranks []int, done func([]*waitreport.Info)) {
	q := &question{inc: h.inc, ranks: ranks, infos: make([]*waitreport.Info, len(ranks)), at: map[int]int{}, done: done}
	h.asked++
	number := h.asked
	for i, rank := range ranks {
		r := h.job.Rank(rank)
		if r.Phase != joblife.Up && r.Phase != joblife.Final {
			q.infos[i] = &waitreport.Info{State: r.Phase.String()}
			continue
		}
		if !r.Looks {
			q.infos[i] = &waitreport.Info{State: "cannot be asked: it was built with an older release of this library"}
			continue
		}
		q.at[rank] = i
		q.open++
		h.inc.links[r.Agent].out.Send(oob.Msg{Kind: oob.Look, From: oob.Head, To: int32(rank), Incarnation: h.inc.id, A: what, B: number, Data: data})
	}
	if q.open == 0 {
		done(q.infos)
		return
	}
	h.questions[number] = q
	q.timer = h.after(control.LookWithin(len(ranks)), func() { h.answered(number) })
}

// seen takes an answer.
func (inc *incarnation) seen(m *oob.Msg) {
	if m.A == oob.LookUnreceived {
		inc.unreceived(m)
		return
	}
	q := inc.h.questions[m.B]
	if q == nil || q.inc != inc {
		return // too late
	}
	i, asked := q.at[int(m.From)]
	if !asked || q.infos[i] != nil {
		return
	}
	var in waitreport.Info
	if err := json.Unmarshal(m.Data, &in); err != nil {
		in.State = fmt.Sprintf("answer not understood: %v", err)
	}
	q.infos[i] = &in
	if q.open--; q.open == 0 {
		inc.h.answered(m.B)
	}
}

// answered ends a question.
func (h *head) answered(number uint64) {
	if q := h.questions[number]; q != nil {
		delete(h.questions, number)
		q.timer.Stop()
		q.done(q.infos)
	}
}

// everybody returns the list of all ranks.
func (h *head) everybody() []int {
	all := make([]int, h.opt.NP)
	for i := range all {
		all[i] = i
	}
	return all
}

// mostWaits is how many lines about waits are printed when -timeout ends the job.
const mostWaits = 40

// timeIsOver ends the job because of -timeout, and tells what the ranks were doing.
func (h *head) timeIsOver() {
	ranks := h.everybody()
	h.look(oob.LookWaits, ranks, func(infos []*waitreport.Info) {
		lines := waitreport.Report(ranks, infos)
		for i, line := range lines {
			if i == mostWaits {
				h.say("... and %d more", len(lines)-i)
				break
			}
			h.say("%s", line)
		}
		h.finish(verdict{Code: spec.ExitTimeout, Rank: -1, Text: fmt.Sprintf("the job was ended: -timeout %v ran out", h.opt.Timeout)}, true)
	})
}

// statusWithWaits answers with what the ranks wait for.
func (h *head) statusWithWaits(done func(*control.Status)) {
	inc := h.inc
	h.look(oob.LookWaits, h.everybody(), func(infos []*waitreport.Info) {
		s := h.status()
		for i := range s.Ranks {
			r := &s.Ranks[i]
			switch in := infos[i]; {
			case h.inc != inc:
			case in == nil:
				r.Doing = noAnswer
			default:
				r.Waits = in.Waits
				if in.State != r.State {
					r.Doing = in.State
				}
			}
		}
		done(&s)
	})
}

const noAnswer = "no answer"

// stacks answers with the stacks of some ranks, all if ranks is empty.
func (h *head) stacks(ranks []int, done func([]control.RankStacks)) {
	if len(ranks) == 0 {
		ranks = h.everybody()
	}
	h.look(oob.LookStacks, ranks, func(infos []*waitreport.Info) {
		all := make([]control.RankStacks, len(ranks))
		for i, rank := range ranks {
			r := h.job.Rank(rank)
			all[i] = control.RankStacks{Rank: rank, PID: r.PID, Host: r.Host, State: noAnswer}
			if in := infos[i]; in != nil {
				all[i].State, all[i].Stacks = in.State, in.Stacks
			}
		}
		done(all)
	})
}
