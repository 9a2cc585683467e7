// Package agent is the process on each node that is the parent of its ranks. It starts, images,
// restores and reaps them, and stands between them and the head. Package internal/job describes the whole.
package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/cr/whole"
	"github.com/gorun-mpi/gorun/internal/job/bind"
	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/stdio"
	"github.com/gorun-mpi/gorun/internal/offload/share"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/joblife"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wire"
	"github.com/gorun-mpi/gorun/internal/system/freemem"
	"github.com/gorun-mpi/gorun/internal/system/nofile"
	"github.com/gorun-mpi/gorun/launcher"
)

// agent is one agent process: the parent of its ranks, between them and the head. It passes their
// frames on, except those that concern the image of a whole process: it keeps these, and answers
// for the rank itself.
type agent struct {
	index int32
	head  *wire.Queue
	conn  *oob.Conn
	order wire.Order
	kept  *kept         // nil: this is the head's own node
	out   *stdio.Window // output that the head has not yet written

	in      *stdio.Pipe // to the rank that has standard input; nil: not here. Only the reader uses it
	spawner chan func() // runs on the thread that is the parent of all ranks

	mu     sync.Mutex
	live   int                 // ranks to be started, or started and not yet reaped
	ranks  map[int32]*rankProc // by rank; filled as they are started, entries stay
	pids   map[int]*rankProc   // those not yet reaped
	copies map[int]bool        // child processes that hold memory being imaged
	unborn int                 // children expected
	missed bool                // a sweep was left out because of unborn children
	killed bool                // what is started from now on must end at once
	sums   *ckpt.DestSum       // adds up the ranks' Dests
	cpus   map[int]bind.Set    // by rank, of those that are bound; set before any is started
	begun  bool                // ranks were started

	unwatch chan struct{} // closed when this agent is to watch its node no longer; nil: it does not

	seatsOnce sync.Once
	seats     *share.Table // of offload processes, with -devices

	printing sync.RWMutex // held to send output, and alone while a line is sent in pieces

	quit     chan struct{} // closed when killed is set
	cut      chan struct{} // closed when files that ranks share are to be cut: all ranks are restored
	restored chan struct{} // closed when the head says that all ranks may go
	running  chan struct{} // closed when the head first says that all ranks are up

	images   images
	places   *places
	lookups  lookups
	meter    *meter         // the reader's; nil: the head has not asked
	imagings sync.WaitGroup // copies and images in the making
	left     sync.WaitGroup // ranks about which something is still to be said
	gone     chan struct{}  // closed when nothing of the ranks is left
}

// Main is the whole life of an agent; it returns the process's exit status.
func Main(args []string) int {
	if err := serveHead(args); err != nil {
		fmt.Fprintln(os.Stderr, "gorun agent:", nofile.Explain(err, nofile.OfAgent(1), wire.MoreAgents))
		return joblife.Failed
	}
	return 0
}

func serveHead(args []string) error {
	kept := len(args) == 2 && args[1] == launcher.KeeperVerb
	if len(args) != 1 && !kept {
		return errors.New("this verb is gorun's own: it is used to start agents")
	}
	index, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	// A signal from a terminal must not end or stop an agent; its ranks get it on the head's word. A
	// handler, unlike an ignored signal, is not inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	// Orphans of ranks come to this process, not to init.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	closeOnExec()
	conn, err := oob.NewConn(launcher.AgentFD)
	if err != nil {
		return err
	}
	if kept {
		return serveKept(index, conn)
	}
	return newAgent(index, conn).run()
}

// closeOnExec keeps inherited descriptors from the ranks: the stream to the head, and whatever a
// shell or a make had open when gorun was started. Ranks must not use these, and would not find
// them after a restart elsewhere.
func closeOnExec() {
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	entries, _ := os.ReadDir("/proc/self/fd") // Linux before 5.11
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

func newAgent(index int, conn *oob.Conn) *agent {
	a := &agent{
		index: int32(index), conn: conn, head: wire.NewQueue(conn), out: stdio.NewWindow(stdio.OutputWindow),
		spawner: make(chan func()), gone: make(chan struct{}), quit: make(chan struct{}), cut: make(chan struct{}), restored: make(chan struct{}), running: make(chan struct{}),
		ranks: map[int32]*rankProc{}, pids: map[int]*rankProc{}, copies: map[int]bool{},
		images: images{tracers: map[string]whole.Tracer{}, disk: turns{free: writeShares}, memory: memory{free: freemem.Free}},
	}
	a.places = newPlaces(a.head, index)
	go a.spawnerThread()
	return a
}

// spawnerThread keeps one thread for the life of the agent. A rank's parent-death signal fires
// when the thread that started it ends, not the process.
func (a *agent) spawnerThread() {
	runtime.LockOSThread()
	for f := range a.spawner {
		f()
	}
}

// run obeys the head until it says goodbye or is gone.
func (a *agent) run() error {
	h := wire.Hello("agent")
	h.From = oob.AgentAddr(int(a.index))
	a.head.Send(h)
	first, err := a.conn.Recv()
	if err != nil {
		return err
	}
	if _, err := oob.CheckHello(&first); err != nil {
		return err
	}
	recv := a.conn.Recv
	if a.kept == nil {
		recv = newInbox(a.conn).recv
	}
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return a.headGone()
		}
		if err != nil { // such as no timer for the lease
			return errors.Join(err, a.headGone())
		}
		if m.Kind == oob.KillAll && m.B == oob.Goodbye {
			a.endAll()
			return nil
		}
		if err := a.obey(&m); err != nil {
			return errors.Join(err, a.headGone())
		}
	}
}

func (a *agent) obey(m *oob.Msg) error {
	switch m.Kind {
	case oob.Spawn:
		if a.begun {
			var next wire.Order
			if err := json.Unmarshal(m.Data, &next); err != nil {
				return fmt.Errorf("order of another incarnation: %w", err)
			}
			a.lineUp(&next)
			return nil
		}
		a.mu.Lock()
		err := json.Unmarshal(m.Data, &a.order)
		for rank, start := range a.order.Start {
			start.Nodes = a.order.Nodes
			a.order.Start[rank] = start
		}
		if a.kept != nil {
			a.order.Env = wire.WithNodesOwn(a.order.Env, os.Environ())
		}
		a.mu.Unlock()
		if err != nil {
			return fmt.Errorf("order to spawn: %w", err)
		}
		if len(a.order.Ranks) > 0 {
			a.begun = true
			a.sums = ckpt.NewDestSum(len(a.order.Ranks))
			a.spawnAll()
		}
	case oob.Start:
		if m.To != oob.AgentAddr(int(a.index)) {
			return fmt.Errorf("a Start for rank %d, which is not the head's to send", m.To)
		}
		close(a.restored)
	case oob.Cut:
		close(a.cut)
	case oob.Running:
		select {
		case <-a.running:
		default:
			close(a.running)
		}
		a.down(m)
	case oob.Ping:
		a.head.Send(oob.Msg{Kind: oob.Ping, From: oob.AgentAddr(int(a.index)), To: oob.Head, A: m.A})
	case oob.Output:
		a.out.Give(int(m.A))
	case oob.Files:
		return a.places.far.Handle(m.Data)
	case oob.Located:
		return a.toldWhere(m)
	case oob.Ticket:
		return a.places.ways.told(m)
	case oob.Bring:
		return a.brings(m)
	case oob.Meter:
		a.phase(m)
	case oob.Input:
		a.input(m)
	case oob.Signal:
		a.signalAll(syscall.Signal(m.A))
		if syscall.Signal(m.A) == syscall.SIGSTOP {
			a.awaitStops()
		}
	case oob.KillAll:
		if m.To >= 0 {
			a.endMoved(m.To)
			return nil
		}
		a.signalAll(syscall.SIGKILL)
	default:
		a.down(m)
	}
	return nil
}

// down passes a frame on to the rank that it is for, or to all ranks here if it is for this agent.
func (a *agent) down(m *oob.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.To != oob.AgentAddr(int(a.index)) {
		if r := a.ranks[m.To]; r != nil && !a.onImage(r, m) && !a.speakForStopped(r, m) && !r.onDevices(m) {
			r.down.Send(*m)
		}
		return
	}
	for rank, r := range a.ranks {
		if r.away {
			continue
		}
		c := *m
		c.To = rank
		if !r.onDevices(&c) {
			r.down.Send(c)
		}
	}
}

// up passes a frame of a rank on. It sets From: a rank cannot speak in another's name.
func (a *agent) up(r *rankProc, m oob.Msg) {
	m.From = int32(r.rank)
	if r.restored && !a.lived(r, m.Incarnation) {
		return // it was saying this when it was imaged
	}
	switch m.Kind {
	case oob.Offload:
		r.devices.wish(&m)
		return
	case oob.Ready:
		r.devices.drained(m)
		return
	case oob.Input:
		a.askedForInput(r, m)
		return
	case oob.Lookup:
		a.askedWhere(r, m)
		return
	case oob.Captured:
		at := &oob.InputState{Taken: -1, First: -1} // it stands at a Point until the gate is opened
		if r.in != nil {
			if taken := r.in.Now(); taken != nil {
				at = taken
			}
		}
		at.Printed = r.printed()
		m.Data = wire.JSON(at)
		m = a.makesRoom(r, m)
	case oob.Written:
		m = a.selfWritten(r, m)
	case oob.Exit, oob.Output, oob.Spawn, oob.Bound, oob.Cut, oob.Files, oob.Ticket, oob.Bring, oob.KillAll, oob.Signal, oob.Ping, oob.Meter, oob.Alarm:
		return // not a rank's to say
	case oob.Dests:
		a.mu.Lock()
		sum, done, err := a.sums.Add(m)
		a.mu.Unlock()
		if done {
			sum.From, sum.To = oob.AgentAddr(int(a.index)), oob.Head
			a.head.Send(sum)
		}
		if err != nil {
			a.head.Send(oob.Msg{Kind: oob.Failed, From: m.From, To: oob.Head, Incarnation: m.Incarnation, Attempt: m.Attempt, Data: []byte(err.Error())})
		}
		return
	}
	if m.Kind != oob.Bookmark {
		m.To = oob.Head // only these go from rank to rank
	}
	a.mu.Lock()
	peer := a.ranks[m.To]
	here := peer != nil && !peer.away
	a.mu.Unlock()
	if here {
		peer.down.Send(m)
		return
	}
	a.head.Send(m)
}

func (a *agent) signalAll(sig syscall.Signal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sig == syscall.SIGKILL && !a.killed {
		a.killed = true
		close(a.quit)
	}
	for _, r := range a.ranks {
		if sig == syscall.SIGKILL {
			if r.away {
				r.kill(sig) // before it is let go
			}
			r.imaging.giveUp() // its copy is in the group
		}
		r.kill(sig)
	}
}

// endAll kills all ranks and returns when nothing of them is left.
func (a *agent) endAll() {
	a.signalAll(syscall.SIGKILL)
	a.out.Open() // no writer may wait for a reader that is gone
	if !a.begun {
		return
	}
	select {
	case <-a.gone:
	case <-time.After(stuckAfter):
		// If a rank hangs, the kernel ends it when this process ends.
		fmt.Fprintf(os.Stderr, "gorun agent: the ranks here have not ended within %v of being killed\n", stuckAfter)
	}
}

// stuckAfter is how long killed ranks may take to be gone.
const stuckAfter = 20 * time.Second

// headGone ends and removes everything after the head died.
func (a *agent) headGone() error {
	a.conn.Close()
	a.endAll()
	var errs []error
	for _, p := range a.order.Cleanup {
		errs = append(errs, control.RemoveOwn(p))
	}
	if a.order.Control != "" {
		errs = append(errs, control.RemoveFolder(string(a.order.Control)))
	}
	return errors.Join(append(errs, a.kept.keeperGone())...)
}
