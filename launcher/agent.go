package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/endian"
	"github.com/gorun-mpi/gorun/internal/exact"
	"github.com/gorun-mpi/gorun/internal/nofile"
	"github.com/gorun-mpi/gorun/internal/oob"
)

// AgentVerb is the hidden verb under which gorun is an agent; a program that
// starts jobs itself must call AgentMain when its first argument is this.
const AgentVerb = "__agent"

// AgentFD is the descriptor on which an agent finds its stream to the head.
const AgentFD = 3

// order is the data of a Spawn frame: what every agent needs, and what only the
// launcher's own agents know of.
type order struct {
	oob.SpawnConfig
	Stdin       bool          `json:"stdin"`       // rank 0 gets a pipe, Input frames follow
	Interactive bool          `json:"interactive"` // half a line is passed on when nothing follows it soon
	Cleanup     exact.Strings `json:"cleanup"`     // to be removed by the agent if the head dies
	Control     exact.String  `json:"control"`     // the job's control folder, removed in the same case
	Host        string        `json:"host"`

	Imager string                       `json:"imager,omitempty"` // the back-end that images whole processes
	Track  bool                         `json:"track,omitempty"`  // images may build on the one before
	Chain  map[int]map[int]exact.String `json:"chain,omitempty"`  // restart: by rank and sequence, the images that the ranks' build on
	Files  FilesPolicy                  `json:"files,omitempty"`
	Held   []int                        `json:"held,omitempty"` // ranks that wait for a debugger
}

// agent is one agent process: parent of its ranks, between them and the head.
// Its ranks' frames pass through it, but those that concern the imaging of a whole
// process: these it keeps, and speaks for the rank itself.
type agent struct {
	index int32
	head  *queue
	conn  *oob.Conn
	fd    int // of conn
	order order
	out   *window // output that the head has not yet written

	in      *inputPipe  // to the rank that has standard input; nil: none here. The reader's alone
	spawner chan func() // runs on the thread that is the parent of all ranks

	mu     sync.Mutex
	live   int                 // ranks to be started, or started and not yet reaped
	ranks  map[int32]*rankProc // by rank; filled as they are started, entries stay
	pids   map[int]*rankProc   // those not yet reaped
	copies map[int]bool        // children that hold what is being imaged
	unborn int                 // children expected
	missed bool                // a sweep was left out for their sake
	killed bool                // what is started from now on must end at once
	sums   *ckpt.DestSum       // adds up the ranks' Dests
	begun  bool                // ranks were started

	quit     chan struct{} // closed when killed is set
	restored chan struct{} // closed when the head says that all ranks are

	images   images
	imagings sync.WaitGroup // copies and images in the making
	left     sync.WaitGroup // ranks of which something is still to be told
	gone     chan struct{}  // closed when nothing of the ranks is left
}

// AgentMain is the whole life of an agent; it returns the process's exit status.
func AgentMain(args []string) int {
	if err := agentMain(args); err != nil {
		fmt.Fprintln(os.Stderr, "gorun agent:", nofile.Explain(err, nofile.OfAgent(1), moreAgents))
		return ExitFailed
	}
	return 0
}

func agentMain(args []string) error {
	if len(args) != 1 {
		return errors.New("this verb is gorun's own: it is used to start agents")
	}
	index, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	// What a terminal sends must not end or stop an agent, only its ranks on the
	// head's word. A handler, unlike an ignored signal, is not inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	// What ranks leave behind comes to us, not to init.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	closeOnExec()
	conn, err := oob.NewConn(AgentFD)
	if err != nil {
		return err
	}
	return newAgent(index, AgentFD, conn).run()
}

// closeOnExec keeps what this process has inherited from its ranks: the stream to
// the head, and whatever a shell or a make had open when gorun was started, which
// is nothing of theirs and cannot be had again when they are restarted elsewhere.
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

func newAgent(index, fd int, conn *oob.Conn) *agent {
	a := &agent{
		index: int32(index), fd: fd, conn: conn, head: newQueue(conn), out: newWindow(outputWindow),
		spawner: make(chan func()), gone: make(chan struct{}), quit: make(chan struct{}), restored: make(chan struct{}),
		ranks: map[int32]*rankProc{}, pids: map[int]*rankProc{}, copies: map[int]bool{},
		images: images{tracers: map[string]Tracer{}, disk: turns{free: writeShares}, memory: memory{free: freeMemory}},
	}
	go a.spawnerThread()
	return a
}

// spawnerThread keeps one thread for ever: the parent-death signal of a rank
// fires when the thread that started it ends, not the process.
func (a *agent) spawnerThread() {
	runtime.LockOSThread()
	for f := range a.spawner {
		f()
	}
}

// hello is the greeting of this process in the role given.
func hello(role string) oob.Msg {
	h := oob.HelloInfo{Role: role, PID: os.Getpid(), Arch: runtime.GOARCH, BigEndian: endian.Big, Library: Version}
	return oob.Msg{Kind: oob.Hello, A: oob.VersionMin, B: oob.VersionMax, Data: mustJSON(h)}
}

// mustJSON encodes a value of our own types, which always can be.
func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// run obeys the head until it says goodbye or is gone.
func (a *agent) run() error {
	h := hello("agent")
	h.From = oob.AgentAddr(int(a.index))
	a.head.send(h)
	first, err := a.conn.Recv()
	if err != nil {
		return err
	}
	if _, err := oob.CheckHello(&first); err != nil {
		return err
	}
	for {
		m, err := a.conn.Recv()
		if err != nil {
			return a.headGone()
		}
		if m.Kind == oob.KillAll && m.B == goodbye {
			a.endAll()
			return nil
		}
		if err := a.obey(&m); err != nil {
			return errors.Join(err, a.headGone())
		}
	}
}

// goodbye in B of KillAll says that the head has cleaned up itself.
const goodbye = 1

func (a *agent) obey(m *oob.Msg) error {
	switch m.Kind {
	case oob.Spawn:
		a.mu.Lock()
		err := json.Unmarshal(m.Data, &a.order)
		a.mu.Unlock()
		if err != nil {
			return fmt.Errorf("order to spawn: %w", err)
		}
		if len(a.order.Ranks) > 0 && !a.begun {
			a.begun = true
			a.sums = ckpt.NewDestSum(len(a.order.Ranks))
			a.spawnAll()
		}
	case oob.Start:
		if m.To != oob.AgentAddr(int(a.index)) {
			return fmt.Errorf("a Start for rank %d, which is not the head's to send", m.To)
		}
		close(a.restored)
	case oob.Ping:
		a.head.send(oob.Msg{Kind: oob.Ping, From: oob.AgentAddr(int(a.index)), To: oob.Head, A: m.A})
	case oob.Output:
		a.out.give(int(m.A))
	case oob.Input:
		a.input(m)
	case oob.Signal:
		a.signalAll(syscall.Signal(m.A))
	case oob.KillAll:
		a.signalAll(syscall.SIGKILL)
	default:
		a.down(m)
	}
	return nil
}

// down passes a frame to the rank it is for, or to all ranks here if it is for
// this agent.
func (a *agent) down(m *oob.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.To != oob.AgentAddr(int(a.index)) {
		if r := a.ranks[m.To]; r != nil && !a.onImage(r, m) {
			r.down.send(*m)
		}
		return
	}
	for rank, r := range a.ranks {
		c := *m
		c.To = rank
		r.down.send(c)
	}
}

// up takes a frame of one of our ranks. From is set here: a rank cannot speak
// in another's name.
func (a *agent) up(r *rankProc, m oob.Msg) {
	m.From = int32(r.rank)
	if r.restored && m.Incarnation != a.order.Start[r.rank].Incarnation {
		return // it was saying this when it was imaged
	}
	switch m.Kind {
	case oob.Exit, oob.Output, oob.Input, oob.Spawn, oob.KillAll, oob.Signal, oob.Ping:
		return // not a rank's to say
	case oob.Dests:
		a.mu.Lock()
		sum, done, err := a.sums.Add(m)
		a.mu.Unlock()
		if done {
			sum.From, sum.To = oob.AgentAddr(int(a.index)), oob.Head
			a.head.send(sum)
		}
		if err != nil {
			a.head.send(oob.Msg{Kind: oob.Failed, From: m.From, To: oob.Head, Incarnation: m.Incarnation, Attempt: m.Attempt, Data: []byte(err.Error())})
		}
		return
	}
	if m.Kind != oob.Bookmark {
		m.To = oob.Head // only these go from rank to rank
	}
	a.mu.Lock()
	peer := a.ranks[m.To]
	a.mu.Unlock()
	if peer != nil {
		peer.down.send(m)
		return
	}
	a.head.send(m)
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
			r.imaging.giveUp() // its copy is in the group
		}
		r.kill(sig)
	}
}

// endAll kills all ranks and returns when nothing of them is left.
func (a *agent) endAll() {
	a.signalAll(syscall.SIGKILL)
	a.out.open() // nobody is to wait for a reader that is gone
	if !a.begun {
		return
	}
	select {
	case <-a.gone:
	case <-time.After(stuckAfter):
		// Whatever it hangs on, the kernel ends all when this process ends.
		fmt.Fprintf(os.Stderr, "gorun agent: the ranks here have not ended within %v of being killed\n", stuckAfter)
	}
}

// stuckAfter is how long killed ranks may take to be gone.
const stuckAfter = 20 * time.Second

// headGone ends and removes everything after the head died.
func (a *agent) headGone() error {
	unix.Shutdown(a.fd, unix.SHUT_RDWR) // closed it could be another file's by the time all has ended
	a.endAll()
	var errs []error
	for _, p := range a.order.Cleanup {
		errs = append(errs, removeOwn(p))
	}
	if a.order.Control != "" {
		errs = append(errs, removeControl(string(a.order.Control)))
	}
	return errors.Join(errs...)
}
