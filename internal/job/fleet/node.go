package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/launcher"
)

// state is the state of a node, see the package comment.
type state int

const (
	starting state = iota
	failed
	up
	suspect
	lost
	fenced
)

func (s state) String() string {
	return [...]string{"starting", "failed", "up", "suspect", "lost", "fenced"}[s]
}

// node is one node. The fleet's mu guards what changes.
type node struct {
	hosts.Node
	f      *Fleet
	number int

	own     bool // the head's own machine: no keeper
	out     bool // not to be used any more
	joining bool // it is about to be brought up again
	joined  int  // how often it was brought up after the start, so that no two keepers have the same ticket
	state   state
	since   time.Time
	err     error // why it is failed or lost
	info    *wire.NodeInfo
	address string // by which its ranks are reached
	through string // where the head is reached from there, if that is another port; "": at its home

	process  launcher.Process // nil: none was started
	conn     *oob.Conn        // to the keeper; nil: there is none
	queue    *wire.Queue      // to conn
	files    files            // on the node; made with queue
	listener nodeListener
	granter  *lease.Granter
	granted  time.Time // the last time
	fell     time.Time // it was lost because it was silent, since about then
	agents   map[uint64]*Agent
	requests map[uint64]request
	flushes  map[uint64]*flushing
	copies   map[uint64]chan wire.Copied // orders to copy images that it has not answered
	leased   chan struct{}               // closed when it has its first lease
	ended    chan struct{}               // closed when it is lost
	fenced   chan struct{}               // closed when it is fenced
	leaving  bool                        // its keeper has said that it leaves
	gone     chan struct{}               // closed when its keeper has said that nothing acts there any more
	left     chan struct{}               // closed when its keeper's connection has been read to its end
}

// request is a request to a node that it has not answered.
type request struct {
	program io.ReaderAt
	size    int64
	answer  chan wire.Provided
}

func newNode(f *Fleet, i int, n hosts.Node) *node {
	return &node{
		Node: n, f: f, number: i, since: time.Now(), granter: lease.NewGranter(f.cfg.Terms), agents: map[uint64]*Agent{}, requests: map[uint64]request{}, flushes: map[uint64]*flushing{}, copies: map[uint64]chan wire.Copied{},
		leased: make(chan struct{}), ended: make(chan struct{}), fenced: make(chan struct{}), left: make(chan struct{}), gone: make(chan struct{}),
		listener: nodeListener{opened: make(chan struct{})},
	}
}

// usable reports whether agents may be started there.
func (n *node) usable() bool { return (n.state == up || n.state == suspect) && !n.out }

// hasLeft reports whether its keeper has said that nothing acts there any more.
func (n *node) hasLeft() bool {
	select {
	case <-n.gone:
		return true
	default:
		return false
	}
}

func (n *node) enter(s state) { n.state, n.since = s, time.Now() }

func (n *node) say(detail bool, format string, args ...any) {
	n.f.cfg.Say("node "+n.Name+" "+fmt.Sprintf(format, args...), detail)
}

// read takes what the keeper sends, to the end of its connection.
func (n *node) read() {
	var err error
	for err == nil {
		var m oob.Msg
		if m, err = n.conn.Recv(); err == nil {
			n.take(&m)
		}
	}
	n.f.mu.Lock()
	n.lose(errors.New("the connection to its keeper has ended"))
	n.f.mu.Unlock()
	n.conn.Close()
	n.queue.Close()
	close(n.left)
}

// take takes one frame.
func (n *node) take(m *oob.Msg) {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	switch m.Kind {
	case oob.Renew:
		n.renew(m)
	case oob.Begun:
		if a := n.agents[m.A]; a != nil {
			a.pid.Store(int64(m.B))
		}
	case oob.Ended:
		if a := n.agents[m.A]; a != nil {
			delete(n.agents, m.A)
			a.said = string(m.Data)
			close(a.ended)
		}
	case oob.Remark:
		for _, line := range strings.Split(strings.TrimRight(string(m.Data), "\n"), "\n") {
			f.cfg.Say(n.Name+": "+strings.ToValidUTF8(line, "?"), false)
		}
	case oob.Fetch:
		n.fetch(m)
	case oob.Files:
		if err := n.files.client.Handle(m.Data); err != nil {
			n.lose(err)
		}
	case oob.Flushed:
		n.flushed(m)
	case oob.Listen:
		n.listener.open(n, m)
	case oob.Copied:
		n.copied(m)
	case oob.Leaving:
		n.leaves(string(m.Data))
	case oob.Left:
		if n.leaving {
			n.leaving = false // once
			close(n.gone)
		}
	case oob.Provided:
		if r, ok := n.requests[m.A]; ok {
			delete(n.requests, m.A)
			var p wire.Provided
			if err := json.Unmarshal(m.Data, &p); err != nil {
				p.Err = fmt.Sprintf("answer not understood: %v", err)
			}
			r.answer <- p
		}
	}
}

// renew grants the lease that the keeper asks for, unless the node was given up.
func (n *node) renew(m *oob.Msg) {
	if !n.granter.Renew(int64(m.A), lease.Now()) {
		return
	}
	n.granted = time.Now()
	n.queue.Send(oob.Msg{Kind: oob.Grant, From: oob.Head, A: m.A})
	switch n.state {
	case starting:
		n.enter(up)
		close(n.leased)
	case suspect:
		n.enter(up)
		n.say(true, "has renewed its lease again")
	}
}

// look finds out how long the node has been silent.
func (n *node) look(now int64) {
	if n.own || n.state != up && n.state != suspect {
		return
	}
	silent := n.granter.Silent(now)
	for_ := time.Duration(n.granter.SilentFor()) * time.Millisecond
	switch {
	case silent:
		n.fell = n.granted.Add(n.f.cfg.Terms.H / 2)
		n.lose(fmt.Errorf("it has not renewed its lease for %v", for_.Round(100*time.Millisecond)))
	case n.state == up && for_ > n.f.cfg.Terms.L/4:
		n.enter(suspect)
		n.say(true, "is silent for %v", for_.Round(100*time.Millisecond))
	}
}

// leaves gives up a node whose keeper was told to leave, as when its machine shuts down or is
// needed by others. It waits for the keeper's report that all is ended, for as long as its lease.
func (n *node) leaves(why string) {
	if n.state == up || n.state == suspect {
		n.leaving = true
	}
	n.lose(fmt.Errorf("its gorun was told to leave: %s", strings.ToValidUTF8(why, "?")))
}

// lose gives the node up. It gets no more grants, and its streams end, except that of a keeper that
// is leaving.
func (n *node) lose(why error) {
	if n.state == lost || n.state == fenced || n.state == failed {
		return
	}
	n.err = why
	now := lease.Now()
	n.granter.End(now)
	if n.state == starting { // it has no lease
		n.conn.Close()
		n.fail(why)
		return
	}
	n.enter(lost)
	close(n.ended)
	if !n.leaving {
		n.conn.Close()
	}
	n.files.client.Close(why)
	for _, a := range n.agents {
		if a.stream != nil {
			a.stream.Close()
		}
	}
	for id, r := range n.requests {
		delete(n.requests, id)
		r.answer <- wire.Provided{Err: ErrLost.Error()}
	}
	wait := time.Duration(max(n.granter.FencedAt()-now, 0)) * time.Millisecond
	switch {
	case n.f.closing():
		wait = 0 // it was let go
	case n.leaving:
		n.say(false, "leaves the job: %v; what runs there is ended", why)
	default:
		n.say(false, "is lost: %v; last renewal %s, whatever ran there has ended by %s", why, n.granted.Format(time.TimeOnly), time.Now().Add(wait).Format(time.TimeOnly))
	}
	go n.fence(wait)
}

// fence waits until the node cannot act any more.
func (n *node) fence(wait time.Duration) {
	for gone := false; wait > 0 && !gone; wait = time.Duration(n.granter.FencedAt()-lease.Now()) * time.Millisecond {
		select {
		case <-time.After(wait): // some clocks stop while a machine is suspended: check again
		case <-n.gone:
			gone = true
		}
	}
	n.f.mu.Lock()
	n.enter(fenced)
	n.f.mu.Unlock()
	n.conn.Close()
	close(n.fenced)
	n.f.await(n)
}

func (f *Fleet) closing() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// pieceSize is small enough for a grant not to wait long behind a piece.
const pieceSize = 256 << 10

// fetch sends a piece of a program.
func (n *node) fetch(m *oob.Msg) {
	r, ok := n.requests[m.A]
	if !ok || m.B > uint64(r.size) {
		return
	}
	p := make([]byte, min(pieceSize, r.size-int64(m.B)))
	got, err := r.program.ReadAt(p, int64(m.B))
	if err != nil && !errors.Is(err, io.EOF) {
		got = 0
	}
	n.queue.Send(oob.Msg{Kind: oob.Piece, From: oob.Head, A: m.A, B: m.B, Data: p[:got]})
}

// dismiss lets go of the keeper and of the process that has started it.
func (n *node) dismiss() error {
	n.f.mu.Lock()
	conn, process, queue := n.conn, n.process, n.queue
	var failed uint64
	if !n.f.well {
		failed = 1
	}
	if n.state == lost || n.state == fenced { // it will not answer
		conn = nil
		if process != nil {
			process.Kill()
		}
	}
	n.f.mu.Unlock()
	limit := time.NewTimer(leaveWithin)
	defer limit.Stop()
	var err error
	if conn != nil {
		queue.Send(oob.Msg{Kind: oob.KillAll, From: oob.Head, A: failed, B: oob.Goodbye})
		select {
		case <-n.left:
		case <-limit.C:
			err = fmt.Errorf("its keeper has not left within %v; it leaves when its lease is over", leaveWithin)
			limit.Reset(0)
			conn.Close()
		}
	}
	if process == nil {
		return err
	}
	over := make(chan struct{})
	go func() {
		process.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-limit.C:
		process.Kill()
		<-over
	}
	return err
}
