package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/launcher"
)

// Agent is an agent of one life, with the ranks assigned to it. It is a launcher.Agent.
type Agent struct {
	Ranks []int
	Info  *wire.NodeInfo // of its node
	Own   bool           // it runs on the head's own node
	Node  int            // number of the node

	node    *node
	number  uint64
	address string
	stream  oob.Stream
	local   launcher.Agent // on the head's own node
	pid     atomic.Int64
	said    string        // how it ended
	ended   chan struct{} // closed when nothing of it is left
}

// Stream, PID, Host, Address, Kill and Wait are those of launcher.Agent.
func (a *Agent) Stream() launcher.Stream { return a.stream }

func (a *Agent) PID() int { return int(a.pid.Load()) }

func (a *Agent) Host() string {
	return a.node.Name
}

func (a *Agent) Address() string { return a.address }

// Kill asks the keeper to end the agent. One that cannot be asked ends with its lease.
func (a *Agent) Kill() error {
	if a.local != nil {
		return a.local.Kill()
	}
	a.node.queue.Send(oob.Msg{Kind: oob.End, From: oob.Head, A: a.number})
	return nil
}

// Wait returns when the keeper has said that nothing of the agent is left, or when the node is
// fenced.
func (a *Agent) Wait() error {
	if a.local != nil {
		return a.local.Wait()
	}
	select {
	case <-a.ended:
		if a.said != "" {
			return errors.New(a.said)
		}
		return nil
	case <-a.node.fenced:
		return ErrLost
	}
}

// Begin starts the agents of a life, one on each node that has ranks, in the order of nodes. Those
// that were started are returned with an error, too. An error that another try may overcome wraps
// ErrLost.
func (f *Fleet) Begin(ctx context.Context, life int) ([]*Agent, error) {
	placed, nodes, err := f.settle(ctx)
	if err != nil {
		return nil, err
	}
	var all []*Agent
	for i, ranks := range placed {
		if len(ranks) > 0 {
			all = append(all, &Agent{Ranks: ranks, node: nodes[i], Node: i, ended: make(chan struct{})})
		}
	}
	return startAll(ctx, all, 0, life)
}

// startAll starts agents, with numbers from first on. It returns those that were started with an error, too.
func startAll(ctx context.Context, all []*Agent, first, life int) ([]*Agent, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, agentWithin, fmt.Errorf("it has not answered within %v", agentWithin))
	defer cancel()
	var wait sync.WaitGroup
	errs := make([]error, len(all))
	for i, a := range all {
		wait.Go(func() { errs[i] = a.start(ctx, first+i, life) })
	}
	wait.Wait()
	var started []*Agent
	for i, a := range all {
		if errs[i] == nil {
			started = append(started, a)
		} else {
			errs[i] = fmt.Errorf("node %s: agent %d: %w", a.node.Name, first+i, errs[i])
		}
	}
	return started, errors.Join(errs...)
}

// settle decides where the ranks of a life go, and waits for awaited nodes.
func (f *Fleet) settle(ctx context.Context) (placed [][]int, nodes []*node, err error) {
	ctx, cancel := f.patient(ctx)
	defer cancel()
	for told := false; ; told = true {
		f.mu.Lock()
		var guests []int
		if placed, guests, err = f.place(); err == nil {
			f.begins(placed, guests)
		}
		nodes = slices.Clone(f.nodes)
		news := f.news
		f.mu.Unlock()
		if err == nil || f.awaited == nil || !errors.Is(err, hosts.ErrNodes) {
			return placed, nodes, err
		}
		if !told {
			f.cfg.Say(fmt.Sprintf("%v: waiting for others to come", err), false)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("%w; %w", err, context.Cause(ctx))
		}
	}
}

// start starts one agent.
func (a *Agent) start(ctx context.Context, index, life int) (err error) {
	n, f := a.node, a.node.f
	f.mu.Lock()
	a.Info, a.Own, a.address = n.info, n.own, n.address
	f.mu.Unlock()
	if a.Own {
		if a.local, err = f.cfg.Local(index); err == nil {
			a.stream, a.address = a.local.Stream(), f.ownAddress()
			a.pid.Store(int64(a.local.PID()))
		}
		return err
	}
	select { // one of hundreds of calls at once may be dropped in the middle, and costs the head its handshake again
	case f.logins <- struct{}{}:
		defer func() { <-f.logins }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	calls, forget := f.expect(call{n.number, index, life})
	defer forget()
	ticket := f.home.Ticket(n.number, index, life)
	f.mu.Lock()
	if !n.usable() {
		f.mu.Unlock()
		return ErrLost
	}
	if n.through != "" {
		ticket.Addresses = []string{n.through}
	}
	f.number++
	a.number = f.number
	n.agents[a.number] = a
	n.queue.Send(oob.Msg{Kind: oob.Begin, From: oob.Head, A: a.number, Data: wire.JSON(wire.Agent{Index: index, Ticket: wire.JSON(ticket)})})
	f.mu.Unlock()
	select {
	case c := <-calls:
		return a.came(c)
	case <-a.ended:
		return fmt.Errorf("it has ended: %s", a.said)
	case <-n.ended:
		return ErrLost
	case <-ctx.Done():
		a.Kill()
		return context.Cause(ctx)
	}
}

// came takes an agent's call, unless its node was lost meanwhile.
func (a *Agent) came(c arrival) error {
	f := a.node.f
	f.mu.Lock()
	defer f.mu.Unlock()
	a.stream = c.stream
	if !a.node.usable() {
		c.stream.Close()
		return ErrLost
	}
	return nil
}

// ownAddress is the head's own address, if there are other nodes.
func (f *Fleet) ownAddress() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hosts == "" {
		for _, n := range f.nodes {
			if !n.own && n.usable() {
				return first(f.own.Addresses)
			}
		}
	}
	return f.hosts
}

// Provide makes every node with agents find what their ranks need, and copies the program to nodes
// that lack it. It returns the path of the program by agent, and why the back-end for whole
// processes does not work on some node.
func (f *Fleet) Provide(ctx context.Context, agents []*Agent, want wire.Provision, program io.ReaderAt) (paths []string, imager, err error) {
	paths = make([]string, len(agents))
	errs, imagers := make([]error, len(agents)), make([]error, len(agents))
	var wait sync.WaitGroup
	for i, a := range agents {
		if a.Own {
			paths[i] = string(want.Program)
			continue
		}
		wait.Go(func() {
			p, err := a.node.provide(ctx, want, program)
			if paths[i] = string(p.Program); err != nil {
				errs[i] = fmt.Errorf("node %s: %w", a.node.Name, err)
			}
			if p.Imager != "" {
				imagers[i] = fmt.Errorf("node %s: %s", a.node.Name, p.Imager)
			}
		})
	}
	wait.Wait()
	return paths, errors.Join(imagers...), errors.Join(errs...)
}

func (n *node) provide(ctx context.Context, want wire.Provision, program io.ReaderAt) (wire.Provided, error) {
	f := n.f
	answer := make(chan wire.Provided, 1)
	f.mu.Lock()
	if n.state != up && n.state != suspect {
		f.mu.Unlock()
		return wire.Provided{}, ErrLost
	}
	f.number++
	id := f.number
	n.requests[id] = request{program, want.Size, answer}
	n.queue.Send(oob.Msg{Kind: oob.Provide, From: oob.Head, A: id, Data: wire.JSON(want)})
	f.mu.Unlock()
	select {
	case p := <-answer:
		switch p.Err {
		case "":
			return p, nil
		case ErrLost.Error():
			return p, ErrLost
		}
		return p, errors.New(p.Err)
	case <-ctx.Done():
		f.mu.Lock()
		delete(n.requests, id)
		f.mu.Unlock()
		return wire.Provided{}, context.Cause(ctx)
	}
}
