package head

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/fleet"
	"github.com/gorun-mpi/gorun/internal/job/spec"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// Ranks that move to other nodes while the others stay. The machine of the job's life decides. This
// file provides what it needs: agents on the new nodes, images for the ranks, and the orders that
// announce the next incarnation. Their images are a snapshot that is never committed.

// moving is a move that is under way.
type moving struct {
	plan  *fleet.Plan
	names []string // of the job's nodes at its beginning
	onto  [2]string
	here  bool // ranks move to other processes on this machine, in a job without nodes
	ids   [2]uint64
	old   lineup // to go back to
	links []*link
	ahead *bringing // nil: no image has gone ahead
	began time.Time
	tell  func(ckpt.ProgressInfo)
	done  func(*control.Moved, error)
}

// lineup lists the agents that take part in an incarnation, and their ranks.
type lineup struct {
	id     uint64
	secret []byte
	ranks  [][]int // by link
}

// moveRequest is a user's wish.
type moveRequest struct {
	ranks   []int
	to, off string
	onto    [2]string // the name of a device, and of its replacement on the new node
	timeout time.Duration
}

// migrate moves ranks. done is called in the loop, once.
func (h *head) migrate(q moveRequest, tell func(ckpt.ProgressInfo), done func(*control.Moved, error)) {
	m, err := h.planMove(q)
	if err != nil {
		done(nil, err)
		return
	}
	m.tell, m.done, m.began = tell, done, time.Now()
	if h.inc.moving != nil {
		done(nil, errors.New("ranks are being moved already: try again when they are up"))
		return
	}
	h.verbose("ranks move: %v", m.plan.Ranks)
	if len(m.plan.Ranks) == 0 { // an idle node is only taken out
		h.fleet.Moved(m.plan)
		done(&control.Moved{Where: "no rank was on " + q.off}, nil)
		return
	}
	h.inc.moving = m
	h.inc.readable.Store(&m.names)
	id := h.waiters.addOrder(func(err error) {
		inc := h.inc
		if inc.moving == m {
			inc.moving = nil
			inc.readable.Store(nil)
			if inc.giveUp != nil { // the agents that are being started are not needed any more
				inc.giveUp()
				inc.giveUp = nil
			}
		}
		if err != nil {
			done(nil, err)
			return
		}
		done(&control.Moved{Ranks: m.plan.Ranks, Where: m.where(h), Took: time.Since(m.began), Stood: inc.gate.so()}, nil)
	})
	h.feed(joblife.Event{Type: joblife.EvMove, ID: id, Ranks: m.plan.Ranks, Request: ckpt.Request{Timeout: q.timeout.Milliseconds()}})
}

// planMove decides where ranks go, or says why they cannot.
func (h *head) planMove(q moveRequest) (m *moving, err error) {
	inc := h.inc
	switch {
	case h.opt.CR == "" || h.opt.Mode() == oob.ModeSelf:
		return nil, errors.New("ranks move as images of whole processes: start the job with -cr or -cr=native")
	case h.job.State() == "building" || h.job.State() == "starting":
		return nil, errors.New("not all ranks are up: try again")
	case inc.imager == "":
		return nil, errors.New("ranks move as images of whole processes, and these cannot be imaged: gorun info tells why")
	}
	if err := canMove(inc.imager); err != nil {
		return nil, err
	}
	for _, rank := range q.ranks {
		if rank < 0 || rank >= h.opt.NP {
			return nil, fmt.Errorf("there is no rank %d, they are 0 to %d", rank, h.opt.NP-1)
		}
	}
	m = &moving{names: h.storage.NodeNames(), onto: q.onto}
	for i := range m.ids {
		if m.ids[i], err = newIncarnationID(); err != nil {
			return nil, err
		}
	}
	if h.fleet != nil {
		m.plan, err = h.fleet.PlanMove(q.ranks, q.to, q.off)
	} else {
		m.here = true
		m.plan, err = planHere(q)
	}
	if err == nil && len(m.plan.Ranks) == 0 && q.off == "" {
		err = errors.New("no rank has to move for that")
	}
	return m, err
}

// canMove says why processes that a back-end images cannot move, nil if they can.
func canMove(imager string) error {
	by, err := whole.Find(imager)
	if _, ok := by.(whole.Mover); err == nil && !ok {
		err = fmt.Errorf("processes that %s images cannot move: start the job with -cr=native", imager)
	}
	return err
}

// planHere is the plan for a job on this machine alone: its ranks can only change their process.
func planHere(q moveRequest) (*fleet.Plan, error) {
	if q.off != "" || q.to != "localhost" && q.to != wire.Hostname() {
		return nil, errors.New("it runs on this machine alone: there is nowhere to go; checkpoint and stop it, then gorun restart -hosts ...")
	}
	return &fleet.Plan{Ranks: slices.Compact(slices.Sorted(slices.Values(q.ranks)))}, nil
}

func (m *moving) where(h *head) string {
	if m.here {
		return "in other processes on this machine"
	}
	return h.fleet.Where(m.plan)
}

// join starts the agents for a move, and makes their nodes find what the ranks need.
func (inc *incarnation) join(a *joblife.Action) {
	h, m, life := inc.h, inc.moving, a.Life
	first := a.Agent
	var ctx context.Context
	ctx, inc.giveUp = context.WithCancel(context.Background())
	go func() {
		var agents []*fleet.Agent
		var paths []string
		var err error
		var links []*link
		if m.here {
			links, err = inc.joinHere(first, m.plan.Ranks)
		} else {
			agents, err = h.fleet.BeginMove(ctx, life, first, m.plan)
			if err == nil {
				var imager error
				paths, imager, err = inc.provideTargets(ctx, agents)
				err = errors.Join(err, imager)
			}
			for i, a := range agents {
				l := linkTo(first+i, a)
				if i < len(paths) {
					l.program = paths[i]
				}
				links = append(links, l)
			}
		}
		h.post(func() {
			if inc.giveUp != nil {
				inc.giveUp()
				inc.giveUp = nil
			}
			ev := joblife.Event{Type: joblife.EvJoined, Life: life, Begun: joblife.Begun{Incarnation: m.ids[0], Back: m.ids[1], Restore: comeBackLimit.Milliseconds()}}
			for _, l := range links {
				l.known = inc.knownNode(l)
				ev.Begun.Agents = append(ev.Begun.Agents, joblife.Agent{Host: l.agent.Host(), PID: l.agent.PID(), Ranks: l.share, Own: l.own, Node: l.known})
				inc.links = append(inc.links, l)
				inc.open(l)
			}
			m.links = links
			if err != nil {
				ev.Verdict = h.verdictOf(err)
			}
			h.feed(ev)
		})
	}()
}

// Limits of time for the copy of the program to new nodes: that of any other step of a move, and
// more by its size.
const (
	provideWithin = time.Minute
	provideRate   = 1 << 20 // bytes a second at least
)

// provideTargets is provide within a limit of time: a move does not wait for a node as long as a
// start does.
func (inc *incarnation) provideTargets(ctx context.Context, agents []*fleet.Agent) (paths []string, imager, err error) {
	limit := provideWithin
	if st, err := os.Stat(inc.program()); err == nil {
		limit += time.Duration(st.Size()/provideRate) * time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not got the program within %v", limit))
	defer cancel()
	return inc.provide(ctx, agents)
}

// knownNode is the number of the node of a new agent: that of another agent there, or the next.
func (inc *incarnation) knownNode(of *link) int {
	next := 0
	for _, l := range inc.links {
		if l.host == of.host && inc.h.opt.Params[spec.ParamNodes] != "agents" {
			return l.known
		}
		next = max(next, l.known+1)
	}
	return next
}

// joinHere starts an agent on this machine.
func (inc *incarnation) joinHere(first int, ranks []int) ([]*link, error) {
	a, err := inc.h.start(first)
	if err != nil {
		return nil, err
	}
	return []*link{{index: first, agent: a, own: true, host: a.Host(), machine: a.Host(), share: ranks}}, nil
}

// linkTo is the link to an agent of the fleet that was started for a move.
func linkTo(index int, a *fleet.Agent) *link {
	return &link{index: index, agent: a, kept: a, own: a.Own, share: a.Ranks, host: a.Info.Machine + a.Info.Space, machine: a.Info.Machine, cpus: a.Info.CPUs}
}

// now is the lineup as it is.
func (inc *incarnation) now() lineup {
	u := lineup{id: inc.id, secret: inc.secret}
	for _, l := range inc.links {
		u.ranks = append(u.ranks, l.ranks)
	}
	return u
}

// take makes a lineup the present one. Links that it does not name have no ranks.
func (inc *incarnation) take(u lineup) {
	inc.id, inc.secret = u.id, u.secret
	for i, l := range inc.links {
		if l.ranks = nil; i < len(u.ranks) {
			l.ranks = u.ranks[i]
		}
	}
	inc.lineUp()
}

// restoreMoved tells the agents for a move to restore its ranks, in the lineup of the next incarnation.
func (inc *incarnation) restoreMoved(a *ckpt.HeadAction) {
	m := inc.moving
	m.old = inc.now()
	next := lineup{id: m.ids[0], secret: make([]byte, 32), ranks: make([][]int, len(inc.links))}
	rand.Read(next.secret) // it never fails
	for i, l := range inc.links {
		next.ranks[i] = slices.DeleteFunc(slices.Clone(l.ranks), func(rank int) bool { return slices.Contains(m.plan.Ranks, rank) })
	}
	for _, l := range m.links {
		next.ranks[l.index] = l.share
	}
	inc.take(next)
	nodes := inc.nodes()
	for _, l := range m.links {
		ord := inc.lineupOrder(l, nodes)
		ord.Images, ord.Onto = map[int][]wire.Image{}, m.onto
		if ord.Files != whole.FilesKeep {
			ord.Files = whole.FilesStand
		}
		for _, rank := range l.ranks {
			ord.Images[rank] = inc.moveImages(a, rank)
			start := ord.Start[rank]
			start.Backend = inc.imager
			ord.Start[rank] = start
		}
		l.out.Send(oob.Msg{Kind: oob.Spawn, From: oob.Head, To: oob.AgentAddr(l.index), Data: wire.JSON(ord)})
	}
}

// lineupOrder is an order for an incarnation that begins with a move.
func (inc *incarnation) lineupOrder(l *link, nodes []oob.Node) wire.Order {
	ord := inc.orderFor(l, nodes)
	ord.Images, ord.Held = nil, nil
	for rank, start := range ord.Start {
		start.Moves = true
		ord.Start[rank] = start
	}
	return ord
}

// movedImage is the image with which a rank goes on.
func (inc *incarnation) movedImage(a *ckpt.HeadAction, rank int) wire.Image {
	at := inc.store.bySeq[a.Seq]
	return at.Image(a.Images[rank], inc.linkBefore(rank).agent.Host())
}

// linkBefore is the link of a rank's old process.
func (inc *incarnation) linkBefore(rank int) *link {
	if inc.moving.old.ranks == nil {
		return inc.linkOf(rank)
	}
	for i, ranks := range inc.moving.old.ranks {
		if slices.Contains(ranks, rank) {
			return inc.links[i]
		}
	}
	return nil
}

// switches announces the next incarnation to the ranks that stay: all but those that move or, on
// the way back, all.
func (inc *incarnation) switches(back bool) {
	m := inc.moving
	if back {
		old := m.old
		old.id, old.secret = m.ids[1], make([]byte, 32)
		rand.Read(old.secret)
		inc.take(old)
	}
	inc.h.verbose("move: another incarnation begins, back where they were: %v", back)
	nodes := inc.nodes()
	for _, l := range inc.links {
		if !slices.Contains(m.links, l) {
			l.out.Send(oob.Msg{Kind: oob.Spawn, From: oob.Head, To: oob.AgentAddr(l.index), Data: wire.JSON(inc.lineupOrder(l, nodes))})
		}
	}
}

// moved takes the end of a move.
func (inc *incarnation) moved(a *joblife.Action) {
	h, m := inc.h, inc.moving
	inc.store.phase = ""
	switch {
	case a.Text != "":
		h.verbose("no move: %s", a.Text)
		if m != nil && m.old.ranks != nil && inc.id == m.ids[0] { // before the switch
			inc.take(m.old)
		}
	case m != nil:
		h.dropSwaps(m.plan.Ranks, "has moved")
		if slices.Contains(m.plan.Ranks, 0) {
			inc.feedOn()
		}
		if h.fleet != nil {
			h.fleet.Moved(m.plan)
		}
		h.verbose("moved: %s, after %v", m.where(h), inc.gate.so().Round(time.Millisecond))
	}
	h.waiters.answerOrder(a.ID, a.Text)
}

// feedOn gives standard input to the new process of rank 0, from where the old one had read.
func (inc *incarnation) feedOn() {
	h := inc.h
	if h.stdin == nil {
		return
	}
	at := inc.inputNow(oob.ModeNative)
	err := at.why
	if err == nil {
		err = h.stdin.Can(at.script)
	}
	if err != nil {
		h.say("rank 0 gets no standard input any more: %v", err)
		return
	}
	if inc.took != nil {
		inc.readBefore += inc.took.Taken
	}
	inc.input, inc.lived, inc.took = at, true, nil
	l := inc.linkOf(0)
	inc.attach(l, at.script)
}

// movedFrom names the nodes that may have images of a move in progress, nil if there is none. It may be called beside the loop.
func (inc *incarnation) movedFrom() []string {
	if at := inc.readable.Load(); at != nil {
		return *at
	}
	return nil
}

// serveMove answers a client.
func (h *head) serveMove(q *control.Request, tell func(ckpt.ProgressInfo), last func(control.Reply)) {
	r := moveRequest{ranks: q.Ranks, to: q.To, off: q.Off, timeout: time.Duration(q.TimeoutMS) * time.Millisecond}
	if s := q.Swap; s != nil && s.To != "" {
		r.onto = [2]string{s.Device, s.To}
		if len(r.ranks) == 0 {
			r.ranks = h.having(s.Device, h.everybody())
		}
		if len(r.ranks) == 0 {
			last(control.Reply{Error: fmt.Sprintf("no rank has device %s that gorun can move; gorun status tells which they have (opened after mpi.Init, and not cpu:0)", s.Device)})
			return
		}
	}
	h.migrate(r, tell, func(moved *control.Moved, err error) {
		if err != nil {
			text := strings.TrimSpace(err.Error())
			if h.job != nil && h.job.Steady() {
				text = "the ranks are where they were: " + text
			}
			last(control.Reply{Error: text})
			return
		}
		last(control.Reply{Done: &control.DoneReply{Moved: moved}})
	})
}
