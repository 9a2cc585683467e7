package head

import (
	"fmt"
	"os"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
	"github.com/gorun-mpi/gorun/launcher"
)

// openControl makes the control folder and listens.
func (h *head) openControl() (*control.Server, error) {
	name, err := newIncarnationID()
	if err != nil {
		return nil, err
	}
	h.firstID = name
	rec := control.Record{
		Job: h.id, Incarnation: wire.ID(name), PID: os.Getpid(), Host: wire.Hostname(), NP: h.opt.NP, Agents: h.opt.Agents,
		CR: h.opt.CR, Program: rawstring.String(h.prog.Name), Args: h.opt.Args, Dir: rawstring.String(h.opt.Dir), CkptDir: rawstring.String(h.opt.CkptDir),
		Started: h.began, Cleanup: h.prog.Cleanup(), Version: launcher.Version, Line: h.line(),
	}
	if h.opt.From != nil {
		rec.Parent = rawstring.String(h.opt.From.SchemaPath())
	}
	c, why, err := control.Open(rec, func(q *control.Request, replies chan control.Reply) {
		h.post(func() { h.serve(q, replies) })
	}, h.done)
	if why != nil && err == nil {
		h.say("warning: %v; until then commands find this job within this machine's network alone, not from another container", why)
	}
	return c, err
}

// recorded writes the present incarnation into the job's record.
func (h *head) recorded(inc *incarnation) error {
	return h.control.Update(func(r *control.Record) {
		r.Incarnation, r.Restarts = wire.ID(inc.name), h.job.Restarts()
		if inc.from != nil {
			r.Parent = rawstring.String(inc.from.SchemaPath())
		}
	})
}

// serve runs one request in the loop. Exactly one reply without progress
// follows, at the latest when the job ends.
func (h *head) serve(q *control.Request, replies chan control.Reply) {
	last := func(r control.Reply) {
		select {
		case replies <- r:
		default: // full of unread progress: the client is gone
		}
	}
	if q.Verb == control.VerbWait { // the answer does not depend on this incarnation
		h.waiters.onEnd(func() { last(control.Reply{Done: &control.DoneReply{Status: h.result.Code}}) })
		return
	}
	if h.inc == nil || q.Incarnation != wire.ID(h.inc.name) {
		last(control.Reply{Error: "the job was restarted meanwhile: try again"})
		return
	}
	switch q.Verb {
	case "status":
		if q.Waits {
			h.statusWithWaits(func(s *control.Status) { last(control.Reply{Status: s}) })
			return
		}
		s := h.status()
		last(control.Reply{Status: &s})
	case "stacks":
		for _, rank := range q.Ranks {
			if rank < 0 || rank >= h.opt.NP {
				last(control.Reply{Error: fmt.Sprintf("there is no rank %d, they are 0 to %d", rank, h.opt.NP-1)})
				return
			}
		}
		h.stacks(q.Ranks, func(all []control.RankStacks) { last(control.Reply{Stacks: all}) })
	case "kill":
		h.printer.Hurry()
		h.waiters.onEnd(func() { last(control.Reply{Done: &control.DoneReply{}}) })
		h.finish(verdict{Code: spec.ExitSignalBase + 15, Rank: -1, Text: "ended by gorun kill"}, !q.Now)
	case "checkpoint":
		phase := ""
		h.request(ckptRequest{
			stop: q.Stop, timeout: time.Duration(q.TimeoutMS) * time.Millisecond,
			progress: func(p ckpt.ProgressInfo) {
				// A slow client sees every phase but fewer steps, and room is
				// left for the outcome.
				if n := len(replies); n < cap(replies)/2 || p.Phase != phase && n < cap(replies)-1 {
					phase = p.Phase
					replies <- control.Reply{Progress: &p}
				}
			},
			done: func(r *control.Report, err error) {
				if err != nil {
					last(control.Reply{Error: err.Error()})
					return
				}
				last(control.Reply{Done: &control.DoneReply{Report: r}})
			},
		})
	case control.VerbMigrate:
		h.serveMove(q, func(p ckpt.ProgressInfo) {
			if len(replies) < cap(replies)-1 {
				replies <- control.Reply{Progress: &p}
			}
		}, last)
	case control.VerbSwap:
		h.swap(q, last)
	case control.VerbHold, control.VerbRelease, control.VerbSuspend, control.VerbResume:
		h.order(orders[q.Verb], func(err error) {
			if err != nil {
				last(control.Reply{Error: err.Error()})
				return
			}
			last(control.Reply{Done: &control.DoneReply{}})
		})
	case control.VerbJoin:
		h.join(q, func(text string) {
			if len(replies) < cap(replies)-1 { // room is left for the outcome
				replies <- control.Reply{Said: text}
			}
		}, last)
	default:
		last(control.Reply{Error: fmt.Sprintf("verb %q is not known to version %s", q.Verb, launcher.Version)})
	}
}

func (h *head) status() control.Status {
	var every time.Duration
	if h.opt.CkptAuto {
		every = h.auto.Every(h.ran())
	}
	s := control.Status{
		Job: h.id, Incarnation: wire.ID(h.inc.name), State: h.job.State(), PID: os.Getpid(), NP: h.opt.NP, CR: h.opt.CR,
		Program: rawstring.String(h.prog.Name), Args: h.opt.Args, Started: h.began, Restarts: h.job.Restarts(),
		Checkpoint: h.inc.store.phase, Snapshots: h.commits,
		Failed: h.failing.all, Failing: h.failingState(),
		Last: h.inc.store.last, Held: h.job.Held(), Transports: h.job.Transports(), Interval: h.costs(), Levels: h.storage.Levels(every),
	}
	if h.fleet != nil {
		s.Nodes = h.fleet.States()
	}
	if newest := h.newest(); newest != nil {
		s.Snapshot = rawstring.String(newest.SchemaPath())
	}
	for rank := range h.opt.NP {
		r := h.job.Rank(rank)
		s.Ranks = append(s.Ranks, control.RankStatus{Rank: rank, PID: r.PID, Agent: r.Agent, Host: r.Host, State: r.Phase.String(), CPUs: h.inc.bound[rank], Devices: h.inc.offload[rank]})
	}
	return s
}
