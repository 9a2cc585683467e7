package head

import (
	"context"
	"errors"
	"slices"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/job/fleet"
	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/rawstring"
)

// The agents of a life. Those of a job on this machine alone are started at once. On several nodes
// this takes logins and round trips, so it happens beside the loop, and so does the preparation of
// the nodes.

// openFleet prepares the nodes of the job, if it has others than this machine.
func (h *head) openFleet() (err error) {
	o := &h.opt
	if len(o.Nodes) == 0 {
		return nil
	}
	shared := ""
	if o.CR != "" && (o.CkptLocal == "" && o.CkptStore == "" || slices.ContainsFunc(o.Levels, func(l spec.Level) bool { return l.Place == snapshot.Beside })) {
		shared = o.CkptDir
	}
	h.fleet, err = fleet.New(fleet.Config{
		Job: h.id, NP: o.NP, Nodes: o.Nodes, Rules: o.Rules, Terms: o.Terms(), Manager: o.Manager, Local: h.start, Shared: shared,
		Say: func(text string, detail bool) {
			if !detail || o.Verbose {
				h.say("%s", text)
			}
		},
	})
	return err
}

// closeFleet lets the keepers go.
func (h *head) closeFleet() {
	if h.fleet == nil {
		return
	}
	h.fleet.EndsWell(h.result.Code == 0)
	if err := h.fleet.Close(); err != nil {
		h.say("%v", err)
	}
}

// muster starts the agents of a life.
func (inc *incarnation) muster() {
	h := inc.h
	if h.fleet == nil {
		inc.begun(inc.startHere())
		return
	}
	var ctx context.Context
	ctx, inc.giveUp = context.WithCancel(context.Background())
	h.startBuild()
	go func() {
		var agents []*fleet.Agent
		var err error
		if inc.n == 1 {
			err = h.fleet.Up(ctx)
		}
		from := h.opt.From
		if err == nil && inc.n == 1 && from != nil && (from.Away() || len(h.opt.Older) > 0) {
			from, err = h.storage.Sound()
		}
		if err == nil {
			agents, err = h.fleet.Begin(ctx, inc.n)
		}
		h.post(func() {
			if err == nil && inc.n == 1 {
				err = inc.beginFrom(from)
			}
			var links []*link
			for i, a := range agents {
				l := &link{index: i, agent: a, kept: a, own: a.Own, ranks: a.Ranks, host: a.Info.Machine + a.Info.Space, machine: a.Info.Machine, cpus: a.Info.CPUs}
				links = append(links, l)
			}
			if inc.giveUp != nil {
				inc.giveUp()
				inc.giveUp = nil
			}
			inc.begun(links, err)
		})
	}()
}

// startHere starts all agents on this machine.
func (inc *incarnation) startHere() (links []*link, err error) {
	n := inc.h.opt.Agents
	for i := range n {
		a, err := inc.h.start(i)
		if err != nil {
			return links, err
		}
		l := &link{index: i, agent: a, own: true, host: a.Host(), machine: a.Host()}
		from, to := share(i, n, inc.h.opt.NP)
		for rank := from; rank < to; rank++ {
			l.ranks = append(l.ranks, rank)
		}
		links = append(links, l)
	}
	return links, nil
}

// share is the ranks of agent i of n: contiguous, as equal as can be.
func share(i, n, np int) (from, to int) { return i * np / n, (i + 1) * np / n }

// begun tells the machine which agents were started, and why others were not.
func (inc *incarnation) begun(links []*link, err error) {
	h := inc.h
	inc.links = links
	inc.lineUp()
	for _, l := range links {
		inc.open(l)
	}
	if err == nil {
		err = errors.Join(h.recorded(inc), h.storage.CanMirror())
	}
	ev := joblife.Event{Type: joblife.EvBegun, Life: inc.n, Begun: joblife.Begun{Incarnation: inc.id}}
	inc.number()
	for _, l := range links {
		l.known = l.node
		ev.Begun.Agents = append(ev.Begun.Agents, joblife.Agent{Host: l.agent.Host(), PID: l.agent.PID(), Ranks: l.ranks, Own: l.own, Node: l.node})
	}
	if inc.wholeFrom() {
		ev.Begun.Restore = inc.restoreLimit().Milliseconds()
	}
	ev.Begun.Fetched = inc.from != nil && inc.from.Away()
	if err != nil {
		ev.Verdict = h.verdictOf(err)
	}
	h.feed(ev)
	if err == nil {
		h.startBuild()
	}
}

// prepare checks whether the ranks can be started, makes the nodes find what they need, and
// orders the start.
func (inc *incarnation) prepare() {
	h := inc.h
	if h.storage.Keeps() || h.fleet != nil {
		h.prog.Hold(inc.program())
		h.holdParts()
	}
	if h.fleet == nil && !inc.wholeFrom() {
		inc.ordered(inc.imageable(nil))
		return
	}
	if h.fleet == nil {
		go func() {
			err := inc.findShared()
			h.post(func() { inc.ordered(errors.Join(err, inc.imageable(nil), inc.findChain())) })
		}()
		return
	}
	var agents []*fleet.Agent
	for _, l := range inc.links {
		agents = append(agents, l.kept)
	}
	ctx, cancel := context.WithCancel(context.Background())
	inc.giveUp = cancel
	go func() {
		paths, imager, err := inc.provide(ctx, agents)
		if err == nil {
			err = inc.findShared()
		}
		h.post(func() {
			cancel()
			inc.giveUp = nil
			if err == nil && !h.job.Steady() {
				err = errEnding
			}
			if err == nil {
				err = errors.Join(inc.imageable(imager), inc.findChain())
			}
			for i, path := range paths {
				inc.links[i].program = path
			}
			inc.ordered(err)
		})
	}()
}

var errEnding = errors.New("the job is ending")

// ordered orders the agents to start their ranks, unless there is a reason not to, and tells the
// machine.
func (inc *incarnation) ordered(err error) {
	ev := joblife.Event{Type: joblife.EvOrdered, Life: inc.n}
	if err != nil {
		ev.Verdict = inc.h.verdictOf(err)
	} else {
		inc.order()
	}
	inc.h.feed(ev)
}

// provide makes the nodes find the program and the working folder. It returns where the program is,
// by link, and why a node cannot image whole processes.
func (inc *incarnation) provide(ctx context.Context, agents []*fleet.Agent) (paths []string, imager, err error) {
	h := inc.h
	digest, err := h.prog.Sum()
	if err != nil {
		return nil, nil, err
	}
	f, size, err := h.prog.Open()
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	want := wire.Provision{
		Program: rawstring.String(inc.program()), Digest: digest, Size: size, Dir: rawstring.String(h.opt.Dir), Imager: spec.ImagerName(h.opt.CR),
	}
	return h.fleet.Provide(ctx, agents, want, f)
}

// custody is the first order to an agent: it lists what to remove if the head dies. Agents on
// other nodes cannot do that.
func (inc *incarnation) custody(l *link) wire.Order {
	if !l.own {
		return wire.Order{}
	}
	return wire.Order{Control: rawstring.String(inc.h.control.Dir()), Cleanup: inc.h.prog.Cleanup()}
}

// linkOf is the link to the agent of a rank.
func (inc *incarnation) linkOf(rank int) *link {
	for _, l := range inc.links {
		for _, r := range l.ranks {
			if r == rank {
				return l
			}
		}
	}
	return nil
}

// canPlace says why a restart has too few nodes.
func (h *head) canPlace() error {
	if h.fleet == nil {
		return nil
	}
	return h.fleet.CanPlace()
}

// lostNode reports whether an error comes from the loss of a node, so that another life
// without it may succeed.
func lostNode(err error) bool {
	return errors.Is(err, fleet.ErrLost) && !errors.Is(err, hosts.ErrNodes)
}

// open greets an agent. Everything that comes from it is posted to the loop.
func (inc *incarnation) open(l *link) {
	l.conn = oob.New(l.agent.Stream())
	l.out = wire.NewQueue(l.conn)
	m := wire.Hello("head")
	m.From, m.To = oob.Head, oob.AgentAddr(l.index)
	l.out.Send(m, oob.Msg{Kind: oob.Spawn, From: oob.Head, To: oob.AgentAddr(l.index), Data: wire.JSON(inc.custody(l))})
	inc.h.grant(l)
	go inc.read(l)
}
