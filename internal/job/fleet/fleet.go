package fleet

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/job/keeper"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/launcher"
)

// Config says which nodes a job has.
type Config struct {
	Job     string
	NP      int
	Nodes   []hosts.Node
	Rules   hosts.Rules
	Terms   lease.Terms
	Manager launcher.Manager
	Local   func(index int) (launcher.Agent, error) // starts an agent on the head's own node
	Say     func(text string, detail bool)          // tells the user; detail: only with -v
	Home    rendezvous.Config                       // its Job is filled in
	Shared  string                                  // a folder that all nodes must see; "": none
	Grace   time.Duration                           // how long to wait for nodes that the job can do without; 0: 10 s
	Own     *wire.NodeInfo                          // describes the head's own node; nil: it is found out
}

// Awaited is a launcher.Manager whose keepers come by themselves: at the start, and again in place
// of lost ones. They make their tickets from the secret of the home.
type Awaited interface {
	launcher.Manager
	Home() rendezvous.Config
	// Patience is how long the job waits for a node.
	Patience() time.Duration
}

// Limits of time.
const (
	loginsAtOnce = 128
	upWithin     = 90 * time.Second // a node, from the login to its description
	upGrace      = 10 * time.Second
	agentWithin  = 60 * time.Second // an agent, from the order to its call
	leaveWithin  = 5 * time.Second  // a keeper, from the goodbye
	sayAfter     = 30 * time.Second // without the call of a keeper that is awaited
)

// Fleet is the nodes of a job. Its methods may be called from any goroutine.
type Fleet struct {
	cfg     Config
	home    *rendezvous.Listener // nil: no node needs one
	own     *wire.NodeInfo
	awaited Awaited       // nil: the manager starts the keepers
	logins  chan struct{} // full: as many come up, keepers or agents, as may at once
	done    chan struct{} // closed by Close

	mu      sync.Mutex
	nodes   []*node
	number  uint64 // of the newest agent or request
	flushes uint64 // so many were ordered
	calls   map[call]chan arrival
	placed  [][]int // ranks by node; nil: not placed yet
	had     []bool  // by node: the present life began with it, for ranks or as a spare
	guests  []int   // ranks that are where they are because there was no spare
	joins   sync.WaitGroup
	well    bool          // the job has ended well
	news    chan struct{} // closed and replaced when an awaited node comes or cannot come any more
	hosts   string        // the head's own address, as the nodes reach it
}

// call identifies an expected caller; an agent of -1 is the keeper.
type call struct{ node, agent, life int }

type arrival struct {
	caller rendezvous.Caller
	stream oob.Stream
}

// ErrLost is wrapped by errors that come from the loss of a node: another try without that
// node may succeed.
var ErrLost = errors.New("the node was lost")

// New opens the head's rendezvous. Up brings the nodes up.
func New(cfg Config) (*Fleet, error) {
	f := &Fleet{cfg: cfg, own: cfg.Own, logins: make(chan struct{}, loginsAtOnce), done: make(chan struct{}), calls: map[call]chan arrival{}, news: make(chan struct{})}
	if f.cfg.Grace == 0 {
		f.cfg.Grace = upGrace
	}
	var err error
	if f.own == nil {
		if f.own, err = keeper.Describe(); err != nil {
			return nil, err
		}
	}
	if a, ok := cfg.Manager.(Awaited); ok {
		f.awaited, cfg.Home = a, a.Home()
	} else {
		cfg.Home.Job = cfg.Job
	}
	if f.home, err = rendezvous.Listen(cfg.Home); err != nil {
		return nil, err
	}
	for i, n := range cfg.Nodes {
		f.nodes = append(f.nodes, newNode(f, i, n))
	}
	go f.answer()
	go f.watch()
	return f, nil
}

// answer hands expected callers to those that wait for them, and refuses all others.
func (f *Fleet) answer() {
	for {
		c, s, err := f.home.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		to := f.calls[call{c.Node, c.Agent, c.Life}]
		delete(f.calls, call{c.Node, c.Agent, c.Life})
		f.mu.Unlock()
		if to == nil {
			s.Close()
			continue
		}
		to <- arrival{c, s}
	}
}

// expect admits a caller, once. forget takes that back, and closes the connection if the
// caller has called meanwhile.
func (f *Fleet) expect(c call) (calls <-chan arrival, forget func()) {
	ch := make(chan arrival, 1)
	f.mu.Lock()
	f.calls[c] = ch
	f.mu.Unlock()
	return ch, func() {
		f.mu.Lock()
		delete(f.calls, c)
		f.mu.Unlock()
		select {
		case a := <-ch:
			a.stream.Close()
		default:
		}
	}
}

// watch looks for silent nodes until the fleet is closed.
func (f *Fleet) watch() {
	t := time.NewTicker(f.cfg.Terms.H / 2)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			f.look(lease.Now())
		case <-f.done:
			return
		}
	}
}

func (f *Fleet) look(now int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		n.look(now)
	}
}

// States describes the nodes.
func (f *Fleet) States() []control.Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []control.Node
	for i, n := range f.nodes {
		s := control.Node{Name: n.Name, State: n.state.String(), Since: n.since, Own: n.own}
		if n.info != nil {
			s.Host, s.CPUs = n.info.Host, n.info.CPUs
		}
		if n.err != nil {
			s.Why = n.err.Error()
		}
		if f.placed != nil {
			s.Ranks = f.placed[i]
		}
		all = append(all, s)
	}
	return all
}

// Leave takes a node out: it lives, and is not used any more. The agents that it has stay.
func (f *Fleet) Leave(number int, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[number]
	n.out = true
	n.err = why
}

// CanPlace says why the ranks cannot be placed as things are. If other keepers may still come, it
// returns nil.
func (f *Fleet) CanPlace() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.awaited != nil {
		return nil
	}
	_, _, err := f.place()
	return err
}

// place decides which ranks go to which node, and which of them move to a spare when there is one.
func (f *Fleet) place() (placed [][]int, guests []int, err error) {
	states := f.states()
	if f.placed == nil {
		placed, err = hosts.Pick(states, f.cfg.NP, f.cfg.Rules)
		return placed, nil, err
	}
	if err := f.most(); err != nil {
		return nil, nil, err
	}
	return hosts.Next(states, f.placed, f.guests, f.cfg.Rules)
}

// states are those of the nodes as package hosts wants them.
func (f *Fleet) states() (states []hosts.NodeState) {
	for _, n := range f.nodes {
		s := hosts.NodeState{Node: n.Node, Up: n.usable()}
		if n.info != nil {
			s.Node = s.Node.WithCPUs(n.info.CPUs)
		}
		states = append(states, s)
	}
	return states
}

// begins records where the ranks of a life are, and which nodes it has.
func (f *Fleet) begins(placed [][]int, guests []int) {
	f.placed, f.guests = placed, guests
	f.had = make([]bool, len(f.nodes))
	for i, n := range f.nodes {
		f.had[i] = n.usable()
	}
}

// SilentSince considers the nodes that were given up for their silence after a time. It returns
// about when the first of them fell silent, or false if there is none. The failure was noticed that
// much later.
func (f *Fleet) SilentSince(after time.Time) (first time.Time, any bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.fell.After(after) && (!any || n.fell.Before(first)) {
			first, any = n.fell, true
		}
	}
	return first, any
}

// most refuses to go on without most of the nodes that the last life had, including this machine
// and spares. If they are all lost at once, this machine is more likely the one that is cut off,
// and another head may go on with the job where they are. A node whose keeper has said goodbye is
// not cut off, nor is one that has joined since. If other keepers may come, their coming decides.
func (f *Fleet) most() error {
	if f.awaited != nil {
		return nil
	}
	all, left := 1, 1
	for i, ranks := range f.placed {
		n := f.nodes[i]
		switch {
		case n.own || n.hasLeft():
		case n.usable():
			all, left = all+1, left+1
		case len(ranks) > 0 || i < len(f.had) && f.had[i] && !n.out:
			all++
		}
	}
	if 2*left >= all {
		return nil
	}
	return fmt.Errorf("%w: %d of %d nodes were lost at once, so it is probably this machine that is cut off: see to the network, then go on with gorun restart", hosts.ErrNodes, all-left, all)
}

// Remote reports whether any node but the head's own is in use: grants of leases depend on this
// process.
func (f *Fleet) Remote() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if !n.own && n.usable() {
			return true
		}
	}
	return false
}

// EndsWell sets what keepers are told when they are dismissed: whether the job has ended well.
func (f *Fleet) EndsWell(well bool) {
	f.mu.Lock()
	f.well = well
	f.mu.Unlock()
}

// Close dismisses the keepers, and returns when they have left or the wait for them is over.
func (f *Fleet) Close() error {
	var wait sync.WaitGroup
	f.mu.Lock()
	if f.closing() {
		f.mu.Unlock()
		return nil
	}
	close(f.done)
	f.mu.Unlock()
	f.joins.Wait()
	f.mu.Lock()
	nodes := slices.Clone(f.nodes)
	f.mu.Unlock()
	var errs []error
	var mu sync.Mutex
	for _, n := range nodes {
		wait.Go(func() {
			if err := n.dismiss(); err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("node %s: %w", n.Name, err))
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	f.home.Close()
	return errors.Join(errs...)
}
