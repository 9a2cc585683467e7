package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/listener"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/launcher"
)

// patience is for what takes a moment, on a machine that has other things to do.
const patience = time.Minute

// terms are short, and long enough that a busy machine does not lose a node.
var terms = lease.Terms{L: time.Second, H: 20 * time.Millisecond}

// world is a Manager whose keepers are goroutines.
type world struct {
	t     *testing.T
	ctx   context.Context // of bringing up
	grace time.Duration
	share string // the folder that all must see
	terms lease.Terms
	nodes map[string]*machine

	keepers sync.WaitGroup

	mu   sync.Mutex
	said []string
}

// machine is a node of a world.
type machine struct {
	info    wire.NodeInfo
	refuses error         // what its login says
	deaf    bool          // its keeper ends before it is home
	mute    func()        // its keeper never comes home; called when it is started
	blind   bool          // it does not see what others do
	stop    chan struct{} // closed: its keeper falls silent, its connections stay
	ended   chan struct{} // closed when its keeper has left
	started int64         // when its keeper was

	mu     sync.Mutex
	conn   *oob.Conn
	agents map[uint64]oob.Stream
	asked  int64  // when it asked for the lease that was granted last
	got    []byte // the program that it was provided with

	shut    bool            // it does not answer who wants its listener opened
	door    listener.Opened // what it answers
	doors   int             // how often it was asked
	folders []string        // that it was told of
}

func newWorld(t *testing.T, n int) *world {
	w := &world{t: t, grace: patience, terms: terms, ctx: context.Background(), nodes: map[string]*machine{}}
	for i := range n {
		w.boot(i)
	}
	return w
}

// boot has a node begin anew, or be there for the first time.
func (w *world) boot(i int) *machine {
	m := &machine{
		info: wire.NodeInfo{Host: fmt.Sprint("host", i), Machine: fmt.Sprint("boot", i), Arch: "amd64", CPUs: 4, Digest: "d"},
		stop: make(chan struct{}), ended: make(chan struct{}), agents: map[uint64]oob.Stream{},
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[address(i)] = m
	return m
}

// address is the name of node i: an address, so that no resolver is asked.
func address(i int) string { return fmt.Sprintf("203.0.113.%d", i+1) }

func (w *world) Name() string { return "world" }

// Start starts the keeper of a node.
func (w *world) Start(ctx context.Context, n launcher.Node, ticket []byte) (launcher.Process, error) {
	w.mu.Lock()
	m := w.nodes[n.Name]
	w.mu.Unlock()
	m.started = lease.Now()
	if m.refuses != nil {
		return nil, m.refuses
	}
	if m.deaf {
		return &client{over: closed}, nil
	}
	if m.mute != nil {
		m.mute()
		return &client{over: m.ended, kill: func() { close(m.ended) }}, nil
	}
	var t rendezvous.Ticket
	if err := json.Unmarshal(ticket, &t); err != nil {
		return nil, err
	}
	w.keepers.Go(func() {
		defer close(m.ended)
		m.keep(t)
	})
	return &client{over: m.ended}, nil
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// client is what would be ssh.
type client struct {
	over chan struct{}
	kill func()
}

func (c *client) Kill() error {
	if c.kill != nil {
		c.kill()
	}
	return nil
}

func (c *client) Wait() error {
	<-c.over
	return nil
}

// keep is a keeper's life. Its errors show at the other side.
func (m *machine) keep(t rendezvous.Ticket) error {
	s, err := rendezvous.Call(context.Background(), t)
	if err != nil {
		return err
	}
	conn := oob.New(s)
	m.mu.Lock()
	m.conn = conn
	m.mu.Unlock()
	defer conn.Close()
	h := wire.Hello("keeper")
	h.Data = wire.JSON(map[string]any{"role": "keeper", "node": m.info})
	if err := conn.Send(h); err != nil {
		return err
	}
	if _, err := conn.Recv(); err != nil {
		return nil // it is refused
	}
	go m.renew(conn)
	for {
		f, err := conn.Recv()
		if err != nil || f.Kind == oob.KillAll {
			return nil
		}
		if err := m.obey(conn, &f); err != nil {
			return err
		}
	}
}

// renew asks for the lease until it is to fall silent.
func (m *machine) renew(conn *oob.Conn) {
	t := time.NewTicker(terms.H)
	defer t.Stop()
	for conn.Send(oob.Msg{Kind: oob.Renew, A: uint64(lease.Now())}) == nil {
		select {
		case <-t.C:
		case <-m.stop:
			return
		}
	}
}

func (m *machine) obey(conn *oob.Conn, f *oob.Msg) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch f.Kind {
	case oob.Grant:
		m.asked = int64(f.A)
	case oob.Begin:
		var order wire.Agent
		var t rendezvous.Ticket
		if err := errors.Join(json.Unmarshal(f.Data, &order), json.Unmarshal(order.Ticket, &t)); err != nil {
			return err
		}
		s, err := rendezvous.Call(context.Background(), t)
		if err != nil {
			return err
		}
		m.agents[f.A] = s
		return conn.Send(oob.Msg{Kind: oob.Begun, A: f.A, B: 4711})
	case oob.End:
		m.agents[f.A].Close()
		return conn.Send(oob.Msg{Kind: oob.Ended, A: f.A, Data: []byte("killed")})
	case oob.Listen:
		if m.doors++; m.shut {
			return nil
		}
		return conn.Send(oob.Msg{Kind: oob.Listen, Data: wire.JSON(m.door)})
	case oob.Folder:
		m.folders = append(m.folders, string(f.Data))
	case oob.Provide:
		var p wire.Provision
		if err := json.Unmarshal(f.Data, &p); err != nil {
			return err
		}
		if p.Token != "" {
			var a wire.Provided
			if _, err := os.Stat(string(p.Token)); m.blind || err != nil {
				a.Err = "no such file"
			}
			return conn.Send(oob.Msg{Kind: oob.Provided, A: f.A, Data: wire.JSON(a)})
		}
		m.got = nil
		if p.Size == 0 {
			return conn.Send(oob.Msg{Kind: oob.Provided, A: f.A, Data: wire.JSON(wire.Provided{Err: "the disk is full"})})
		}
		return conn.Send(oob.Msg{Kind: oob.Fetch, A: f.A})
	case oob.Piece:
		m.got = append(m.got, f.Data...)
		if len(f.Data) == pieceSize {
			return conn.Send(oob.Msg{Kind: oob.Fetch, A: f.A, B: f.B + uint64(len(f.Data))})
		}
		return conn.Send(oob.Msg{Kind: oob.Provided, A: f.A, Data: wire.JSON(wire.Provided{Program: "/copy", Imager: "no ptrace"})})
	}
	return nil
}

// leave is what a keeper does that was told to. The caller says its last word.
func (m *machine) leave(t *testing.T) (left func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	send := func(f oob.Msg) {
		t.Helper()
		if err := m.conn.Send(f); err != nil {
			t.Error(err)
		}
	}
	send(oob.Msg{Kind: oob.Leaving, Data: []byte("ended by a signal: SIGTERM")})
	for number, s := range m.agents {
		s.Close()
		send(oob.Msg{Kind: oob.Ended, A: number, Data: []byte("killed")})
	}
	return func() {
		send(oob.Msg{Kind: oob.Left})
		m.conn.Close()
	}
}

// say collects what the user is told.
func (w *world) say(text string, detail bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *world) told(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Contains(strings.Join(w.said, "\n"), text)
}

// fleet makes the fleet of a world, with two slots a node, and brings it up.
func (w *world) fleet(np int, rules hosts.Rules) (*Fleet, error) {
	cfg := Config{
		Job: "job", NP: np, Rules: rules, Terms: w.terms, Manager: w, Say: w.say, Grace: w.grace, Shared: w.share,
		Local: func(int) (launcher.Agent, error) { return nil, errors.New("nothing is local here") },
		Own:   &wire.NodeInfo{Machine: "own", Arch: "amd64", CPUs: 4, Digest: "d"},
	}
	for i := range len(w.nodes) {
		cfg.Nodes = append(cfg.Nodes, hosts.Node{Name: address(i), Slots: 2, SlotsGiven: true})
	}
	f, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := f.Close(); err != nil {
			w.t.Error(err)
		}
		w.keepers.Wait()
	})
	return f, f.Up(w.ctx)
}

// eventually waits until something is so.
func (w *world) eventually(what string, so func() bool) {
	w.t.Helper()
	testenv.Until(w.t, func() string {
		if so() {
			return ""
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Sprintf("not %s; said was %q", what, w.said)
	})
}
