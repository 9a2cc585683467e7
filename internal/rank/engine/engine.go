package engine

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gorun-mpi/gorun/internal/rank/backoff"
	"github.com/gorun-mpi/gorun/internal/rank/shared"
	"github.com/gorun-mpi/gorun/internal/rank/shmcoll"
	"github.com/gorun-mpi/gorun/rpi"
)

// Config makes an Engine.
type Config struct {
	Rank, Size int
	Local      int          // ranks on this host; 0: Size. With more ranks than CPUs waits spin less.
	Modules    []rpi.Module // by preference; per peer the first that Reaches it carries the frames
	Waiter     rpi.Waiter   // nil: the first module that is one, else a ChanWaiter
	Manual     bool         // no background goroutine: the caller drives with Progress or Test
	// Failed is called when a peer has failed, before any call returns ErrPeerFailed because of
	// it. It is called with the engine's lock held: it must be short and must not call the
	// engine. It may be nil.
	Failed func(peer int, err error)
	// Name returns how the communicator of a context was made, for errors. It is called with the engine's
	// lock held, and must not call the engine. nil: none is known.
	Name func(ctx uint64) (path string, ok bool)
	// MoveOff is called, with the engine's lock held, if this rank seems to share a CPU although
	// there is one for each rank. It should move the calling thread to another CPU. nil: the rank
	// stays.
	MoveOff func()
	// Hurry is called, with the engine's lock held, when a program that is not of the job has had this
	// rank's CPU. It should make the system run this rank soon when it is woken. nil: nothing is done.
	Hurry func()
	// Seat is where this rank's thread goes if ranks share CPUs. Its methods are called with the
	// engine's lock held. nil: the rank stays.
	Seat backoff.Seat
}

// pace says where the rank is.
func (cfg *Config) pace() backoff.Config {
	c := backoff.Config{Ranks: cfg.Local, MoveOff: cfg.MoveOff, Hurry: cfg.Hurry, Seat: cfg.Seat}
	if c.Ranks == 0 {
		c.Ranks = cfg.Size
	}
	return c
}

// SetLocal sets the number of ranks on this host, as in Config, after a restart has changed it.
// Only the closer of the gate may call it.
func (e *Engine) SetLocal(n int) {
	cfg := Config{Size: e.size, Local: n}
	e.pace.Set(cfg.pace())
	e.back.ticks.Set(cfg.pace())
}

// Engine is one rank's message engine. Any number of goroutines may call its methods at once,
// except those of the checkpoint side (see CloseGate).
type Engine struct {
	mu       gateLock
	rank     int
	size     int
	modules  []rpi.Module
	only     rpi.Module   // the one that carries all peers; nil if there are several
	polled   []rpi.Module // modules that carry some peer
	idle     []rpi.Module // the others; polled now and then
	waiter   rpi.Waiter
	failed   func(peer int, err error)
	names    func(ctx uint64) (string, bool)
	peers    []peer
	plain    int  // see judge
	someDown bool // some peer has failed
	sent     []uint64
	received []uint64

	table        table
	messages     messagePool
	taken        messageList // matched probes not yet received
	requests     []*request
	waiting      pending // of them, sends that wait for their receiver and plans
	freeRequests *request
	poisoned     map[uint64]error
	teams        shmcoll.Set
	turns        []turn // those that callers wait for

	out     rpi.Header // scratch: what is being sent
	ready   []*peer    // may have something to send and a module that takes it
	due     int        // further work: downs, steps and works together
	downs   int        // channels that went down and were not acted upon
	steps   planList   // plans of which messages are over
	works   planList   // plans whose Do is to be called
	flushes uint64     // counts flushes, see batching
	dirty   uint64     // modules (bits) that hold batched messages back
	polls   uint64

	expecting int                        // plans in progress and channels of Notify: the background goroutine leads soon
	told      map[*request]chan struct{} // channels of Notify

	blocked    waiterList // callers that wait, the longest first
	freeWaiter *waiter
	lead       leading
	alone      *request // what the leader waits for that is not in blocked yet
	turnAlone  *Team    // or the team whose turn it is in
	woke       bool     // a follower was woken since the leader last stepped aside
	inWait     atomic.Bool
	wantOut    atomic.Bool
	outOfWait  chan struct{} // capacity 1: the one in Waiter.Wait has left it
	pace       backoff.Backoff
	rotate     int    // WaitAny's fairness
	misses     uint64 // see missed

	abort atomic.Pointer[abortion]
	back  background
}

type abortion struct{ err error }

// New makes the engine of one rank. The caller then starts each module with
// Env.Sink = Sink(i), tells it its Peers, and calls Start.
func New(cfg Config) *Engine {
	e := &Engine{
		rank: cfg.Rank, size: cfg.Size,
		modules:   cfg.Modules,
		waiter:    pickWaiter(cfg.Modules, cfg.Waiter),
		failed:    cfg.Failed,
		names:     cfg.Name,
		peers:     make([]peer, cfg.Size),
		sent:      make([]uint64, cfg.Size),
		received:  make([]uint64, cfg.Size),
		outOfWait: make(chan struct{}, 1),
		flushes:   1,
	}
	e.mu.init()
	e.table.init(cfg.Size)
	e.teams.Init(host{e}, cfg.Size)
	e.freeRequests = e.moreRequests()
	e.pace.Init(cfg.pace())
	e.back.init(cfg)
	for i := range e.peers {
		e.peers[i].rank = i
		e.peers[i].lose()
	}
	e.judge()
	return e
}

// judge sets plain. A message to or from a rank below plain is always possible: no rank has
// failed, no context is poisoned, the job was not aborted. Code that changes any of these calls
// judge.
//
// The calls that are made most often test plain, and are written in two parts. The first part does
// what most calls need. It makes a call only as its last action, by which it also hands on all
// other cases. So the compiler can keep everything in registers. For a call in the middle, even a
// rare one, it would store every argument in memory and load it again.
func (e *Engine) judge() {
	e.plain = len(e.peers)
	if e.someDown || len(e.poisoned) != 0 || e.abort.Load() != nil {
		e.plain = 0
	}
}

// Sink returns where module i delivers.
func (e *Engine) Sink(i int) rpi.Sink { return &sink{e, i} }

// Rank returns this rank's number.
func (e *Engine) Rank() int { return e.rank }

// Size returns the number of ranks.
func (e *Engine) Size() int { return e.size }

// Start picks the module of each peer and, unless Config.Manual, starts
// background progress. All modules know their peers by then.
func (e *Engine) Start() {
	e.mu.lock()
	e.selectModules()
	e.mu.unlock()
	if !e.back.manual {
		e.back.done = make(chan struct{})
		go e.runBackground(e.back.ticks.Bounds())
	}
}

func (e *Engine) selectModules() {
	used := make([]bool, len(e.modules))
	for i := range e.peers {
		pr := &e.peers[i]
		pr.lose()
		if i == e.rank {
			continue
		}
		for k, m := range e.modules {
			if m.Reaches(i) {
				used[k] = true
				pr.mod, pr.bit = m, 1<<k
				pr.eager = min(m.EagerLimit(), rpi.MaxFrame)
				if pr.failed == nil {
					pr.short = min(pr.eager, smallMax)
				}
				if pr.shortcut, _ = m.(shared.Shortcut); pr.shortcut != nil && pr.failed == nil {
					pr.open, pr.short = pr.shortcut.Open(i), min(pr.eager, shortMax)
				}
				pr.direct, _ = m.(rpi.DirectWriter)
				if pr.reader, _ = m.(rpi.DirectReader); pr.reader != nil {
					pr.directMin = max(pr.reader.DirectMin(), 0)
				}
				break
			}
		}
	}
	e.only, e.polled, e.idle = nil, e.polled[:0], e.idle[:0]
	for k, m := range e.modules {
		if used[k] {
			e.polled = append(e.polled, m)
		} else {
			e.idle = append(e.idle, m)
		}
	}
	if len(e.polled) == 1 {
		e.only = e.polled[0]
	}
}

// Restarted is called by the closer of the gate when the modules have come back with
// Module.Restart, or others have taken their place, and know their Peers. It chooses each peer's
// module again, and forgets published buffers and recorded losses of channels. Half-sent messages
// go on as Data frames over the present modules. It may be called again before the gate opens:
// those modules may have been given up.
//
// If none are given the engine keeps its modules. waiter is as in Config. The Sink of a new
// module i is Sink(i). The caller closes the modules that were replaced. An error names a rank
// that no module reaches. Before Start, Restarted gives an engine the modules that New did not
// know yet.
func (e *Engine) Restarted(modules []rpi.Module, waiter rpi.Waiter) error {
	if modules != nil {
		e.modules = modules
		e.waiter = pickWaiter(modules, waiter)
	}
	e.selectModules()
	e.due -= e.downs
	e.downs, e.dirty = 0, 0
	for i := range e.peers {
		pr := &e.peers[i]
		if pr.mod == nil && i != e.rank {
			return fmt.Errorf("%w: rank %d: no transport reaches it", ErrPeerFailed, i)
		}
		pr.down = nil
		pr.blocked = false
		e.enlist(pr)
	}
	e.forgetDirect()
	e.teams.Move(e.boardsModule())
	return nil
}

// pickWaiter returns where an engine over these modules sleeps.
func pickWaiter(modules []rpi.Module, asked rpi.Waiter) rpi.Waiter {
	if asked != nil {
		return asked
	}
	for _, m := range modules {
		if w, ok := m.(rpi.Waiter); ok {
			return w
		}
	}
	return rpi.NewChanWaiter()
}

// Close ends background progress, fails every wait with ErrAborted and closes the modules. If the
// gate is closed, only its closer may call Close.
func (e *Engine) Close() error {
	if e.mu.gate() {
		e.mu.open()
	}
	e.Abort(errors.New("engine closed"))
	e.stopBackground()
	e.mu.lock()
	defer e.mu.unlock()
	for e.inWait.Load() { // a leader's last sleep is in what is to be closed
		e.waiter.Wake()
		e.stepAside()
	}
	var errs []error
	for _, m := range e.modules {
		errs = append(errs, m.Close())
	}
	e.modules, e.only, e.polled, e.idle = nil, nil, nil, nil
	e.turns = nil
	e.teams.Drop()
	for i := range e.peers {
		pr := &e.peers[i]
		pr.lose()
	}
	return errors.Join(errs...)
}

// Abort makes every wait fail, now and later, with err. It wraps err in ErrAborted if needed. Any
// goroutine may call it. While the gate is closed, it takes effect when the gate opens.
func (e *Engine) Abort(err error) {
	switch {
	case err == nil:
		err = ErrAborted
	case !errors.Is(err, ErrAborted):
		err = fmt.Errorf("%w: %w", ErrAborted, err)
	}
	if !e.abort.CompareAndSwap(nil, &abortion{err}) {
		return
	}
	rouseAll := func() {
		e.judge()
		for w := e.blocked.head; w != nil; w = w.next {
			e.rouse(w)
		}
		for r := range e.told {
			e.tell(r)
		}
		e.mu.unlock()
	}
	if e.mu.tryLock() {
		rouseAll()
		return
	}
	go func() { // the lock may be the caller's own, as closer of the gate
		e.mu.lock()
		rouseAll()
	}()
}

// enter begins a call; leave ends it.
func (e *Engine) enter() {
	e.mu.lock()
	e.back.ticks.Calls++
}

func (e *Engine) leave() {
	if left := e.exit(); left != 0 {
		e.pass(left)
	}
}

// exit is the part of leave that usually suffices. The shortest calls write leave out, as it is
// too long to be inlined.
func (e *Engine) exit() uint32 {
	if len(e.ready)+e.due != 0 {
		return lockTight
	}
	return e.mu.drop()
}

// pass ends what exit has begun.
//
//go:noinline
func (e *Engine) pass(left uint32) {
	if left == lockTight && len(e.ready)+e.due != 0 {
		e.leaveWork()
	}
	e.mu.pass(left)
}

// leaveWork does the work that callbacks have asked for. If it leaves some undone, it makes sure
// that another goroutine does it.
func (e *Engine) leaveWork() {
	for e.settle(true); e.works.head != nil && !e.mu.gate(); e.settle(true) {
		e.work()
	}
	switch {
	case len(e.ready)+e.due == 0:
	case e.lead == leadNobody:
		e.wakeSoon()
	case e.inWait.Load():
		e.waiter.Wake()
	}
}

// Progress polls the modules once, flushes batched messages, and reports
// whether anything moved. Programs need not call it.
func (e *Engine) Progress() bool {
	e.enter()
	defer e.leave()
	e.flush()
	return e.poll()
}

// poll makes progress on all modules. The lock is held.
func (e *Engine) poll() bool {
	var moved bool
	if e.polls++; e.only != nil && e.polls%backoff.IdleEvery != 0 {
		moved = e.only.Poll()
	} else {
		moved = e.pollAll()
	}
	if len(e.turns) != 0 {
		moved = e.pollTurns() || moved
	}
	if len(e.ready) != 0 || e.due != 0 {
		moved = e.settle(false) || moved
	}
	return moved
}

func (e *Engine) pollAll() bool {
	moved := false
	for _, m := range e.polled {
		moved = m.Poll() || moved
	}
	if e.polls%backoff.IdleEvery == 0 {
		e.mu.loosen()
		for _, m := range e.idle {
			moved = m.Poll() || moved
		}
	}
	return moved
}

// settle does the work that callbacks have asked for. Callbacks run inside the modules' methods and
// must not call back. It reports whether there is more to do. brief is as for pump.
func (e *Engine) settle(brief bool) bool {
	if e.mu.gate() {
		return false
	}
	moved := false
	if e.due != 0 {
		if e.downs != 0 {
			e.failDowns()
		}
		moved = e.steps.head != nil
		e.stepPlans()
	}
	return e.pump(brief) || moved
}

// flush makes modules send messages that they hold back, and lets the next message to each peer go
// at once.
func (e *Engine) flush() {
	if e.flushes++; e.dirty != 0 {
		e.flushDirty()
	}
}

func (e *Engine) flushDirty() {
	for k, m := range e.modules {
		if e.dirty&(1<<k) != 0 {
			m.Flush()
		}
	}
	e.dirty = 0
}
