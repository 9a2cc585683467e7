package launcher

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/ckpt"
	"github.com/gorun-mpi/gorun/internal/exact"
	"github.com/gorun-mpi/gorun/internal/oob"
	"github.com/gorun-mpi/gorun/internal/wireup"
)

// incarnation is one life of a job: its agents, ranks and checkpoint machine.
// Its methods run in the head's loop.
type incarnation struct {
	h      *head
	id     uint64
	secret []byte
	from   *snapshot.Snapshot
	chain  []*snapshot.Snapshot // from and what its images build on

	links  []*link
	ranks  []rankState
	wires  *wireup.Head
	routes *wireup.Summary      // which transports carry what; nil: not known yet
	later  bool                 // the user knows that something was denied since then
	count  [phaseExited + 1]int // ranks that have come at least so far

	machine *ckpt.Head
	timers  map[uint64]*time.Timer
	imager  string // the back-end that can image the ranks as whole processes; "": none
	store   storage
	gate    gate
	back    restarting
	ticker  *time.Ticker

	causes   causes
	grace    *time.Timer // until a consequence counts as the cause
	graceFor time.Duration
	ending   *verdict       // why it is being ended; nil: it is not
	leaving  bool           // a rank has entered Finalize
	early    []ckpt.Request // came before all ranks were up
	closing  bool           // over was told
}

type rankState struct {
	phase phase
	pid   int
	link  *link
	hello oob.HelloInfo
}

func newIncarnation(h *head, from *snapshot.Snapshot) (*incarnation, error) {
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("random numbers: %w", err)
	}
	id := h.firstID
	h.firstID = 0
	if id == 0 {
		var err error
		if id, err = newIncarnationID(); err != nil {
			return nil, err
		}
	}
	inc := &incarnation{
		h: h, from: from, id: id, secret: secret,
		ranks:  make([]rankState, h.opt.NP),
		wires:  wireup.New(h.opt.NP),
		timers: map[uint64]*time.Timer{},
	}
	inc.machine = ckpt.NewHead(ckpt.HeadConfig{
		Size: h.opt.NP, Incarnation: inc.id, SparseFrom: h.opt.SparseFrom, FullEvery: h.opt.FullEvery,
		NativeErr: "it is not known yet whether they can be", // see imageable
	})
	return inc, nil
}

func newIncarnationID() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("random numbers: %w", err)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// custody is the first order to an agent: what to remove if the head dies.
func (inc *incarnation) custody() order {
	return order{Control: exact.String(inc.h.control.dir), Cleanup: inc.h.prog.cleanup()}
}

// startAgents starts the agents. The old ones go when the new ones hold custody
// of the job's files.
func (inc *incarnation) startAgents(old *incarnation) error {
	n := inc.h.opt.Agents
	for i := range n {
		l, err := inc.startLink(i, n)
		if err != nil {
			return err
		}
		inc.links = append(inc.links, l)
	}
	inc.ticker = time.NewTicker(inc.h.opt.Heartbeat)
	go inc.heartbeat(inc.ticker)
	if old != nil {
		old.dismiss()
	}
	return inc.h.control.update(inc)
}

// share is the ranks of agent i of n: contiguous, as equal as can be.
func share(i, n, np int) (from, to int) { return i * np / n, (i + 1) * np / n }

// order tells every agent to start its ranks.
func (inc *incarnation) order() {
	if inc.ending != nil {
		return
	}
	if inc.h.cat != nil {
		inc.h.prog.hold(inc.program())
	}
	if err := errors.Join(inc.imageable(), inc.findChain()); err != nil {
		inc.end(inc.h.verdictOf(err), false)
		return
	}
	for _, l := range inc.links {
		l.out.send(oob.Msg{Kind: oob.Spawn, From: oob.Head, To: oob.AgentAddr(l.index), Data: mustJSON(inc.orderFor(l))})
	}
	inc.h.state = "starting"
	if inc.wholeFrom() {
		inc.expectBack()
	}
	if inc.h.stdin != nil {
		l := inc.ranks[0].link
		inc.h.stdin.attach(func(p []byte) { l.out.send(oob.Msg{Kind: oob.Input, From: oob.Head, To: 0, Data: p}) })
		inc.h.startStdin()
	}
}

// orderFor is the order to one agent to start its ranks.
func (inc *incarnation) orderFor(l *link) order {
	o := &inc.h.opt
	from, to := share(l.index, len(inc.links), o.NP)
	ord := inc.custody()
	ord.SpawnConfig = oob.SpawnConfig{
		Program: exact.String(inc.program()), Args: append([]string{inc.h.prog.argv0()}, o.Args...),
		Dir: exact.String(o.Dir), Env: o.Env, Start: map[int]oob.StartConfig{},
	}
	ord.Host = l.agent.Address()
	ord.Stdin = from == 0 && inc.h.stdin != nil
	ord.Interactive = isTerminal(o.Stdout) || isTerminal(o.Stderr)
	nodes, local := inc.nodes(), inc.local(l)
	for rank := from; rank < to; rank++ {
		ord.Ranks = append(ord.Ranks, rank)
		start := inc.startConfig(rank)
		start.Nodes, start.Local, start.Crowded = nodes, local, inc.crowded()
		ord.Start[rank] = start
		inc.ranks[rank].link = l
		l.ranks = append(l.ranks, rank)
	}
	ord.Imager, ord.Track, ord.Files = inc.imager, o.FullEvery > 1, o.Files
	if inc.wholeFrom() {
		ord.Chain = inc.chainOf(from, to)
		if inc.h.restarts == 0 {
			ord.Held = o.Debug
		}
	}
	return ord
}

func (inc *incarnation) startConfig(rank int) oob.StartConfig {
	o := &inc.h.opt
	c := oob.StartConfig{
		Job: inc.h.id, Incarnation: inc.id, Rank: rank, Size: o.NP, Secret: inc.secret,
		RPI: o.RPI, CR: o.CR, SparseFrom: o.SparseFrom, Params: o.Params,
	}
	if inc.from != nil {
		c.Image, c.Backend = exact.String(inc.from.ImagePath(rank)), inc.from.Schema.Backend
	}
	return c
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// message takes a frame of an agent or, through it, of a rank.
func (inc *incarnation) message(l *link, m *oob.Msg) {
	l.silent = 0
	switch m.Kind {
	case oob.Ping:
		return
	case oob.Input:
		if inc.h.stdin != nil && inc == inc.h.inc {
			inc.h.stdin.free.give(int(m.A))
		}
		return
	case oob.Dests:
		inc.step(ckpt.HeadEvent{Type: ckpt.HvMsg, Msg: *m})
		return
	}
	rank := int(m.From)
	if rank < 0 || rank >= len(inc.ranks) || inc.ranks[rank].link != l {
		return // an agent speaks for its own ranks
	}
	if m.To >= 0 {
		inc.forward(m)
		return
	}
	inc.ofRank(rank, m)
}

// forward passes a frame of one rank to another agent's rank.
func (inc *incarnation) forward(m *oob.Msg) {
	if int(m.To) < len(inc.ranks) {
		inc.ranks[m.To].link.out.send(*m)
	}
}

func (inc *incarnation) ofRank(rank int, m *oob.Msg) {
	switch m.Kind {
	case oob.Spawn:
		inc.spawned(rank, int(m.B), m.A)
		switch {
		case len(m.Data) == 0:
		case m.A == spawnWaits:
			inc.h.say("rank %d: %s", rank, m.Data)
		default:
			inc.h.verbose("rank %d: %s", rank, m.Data)
		}
	case oob.Exit:
		inc.exited(rank, syscall.WaitStatus(m.A), string(m.Data))
	case oob.Output:
		inc.output(rank, m)
	case oob.Hello:
		inc.greeted(rank, m)
	case oob.Address:
		inc.addressed(rank, m)
	case oob.Reach:
		if inc.routes == nil {
			inc.reaches(rank, m)
		} else {
			inc.denied(rank, m)
		}
	case oob.Up:
		inc.up(rank)
	case oob.AbortJob:
		inc.causes.aborted(rank, int(int32(m.A)), m.B == 1, string(m.Data))
		inc.judge()
	case oob.Failure:
		inc.causes.failing(rank, m.B == 1, string(m.Data))
	default:
		inc.leaving = inc.leaving || m.Kind == oob.FinalizeWant
		inc.step(ckpt.HeadEvent{Type: ckpt.HvMsg, Msg: *m})
	}
}

func (inc *incarnation) output(rank int, m *oob.Msg) {
	if m.A < 1 || m.A > 2 || len(m.Data) == 0 {
		return
	}
	l := inc.ranks[rank].link
	inc.h.printer.print(printJob{rank: int32(rank), stream: int(m.A), data: m.Data, credit: func(n int) {
		l.out.send(oob.Msg{Kind: oob.Output, From: oob.Head, To: oob.AgentAddr(l.index), A: uint64(n)})
	}})
}

// reach notes that a rank has come to a phase and returns how many have.
func (inc *incarnation) reach(rank int, p phase) int {
	if inc.ranks[rank].phase < p {
		inc.ranks[rank].phase = p
		inc.count[p]++
		inc.cameOn()
	}
	return inc.count[p]
}

func (inc *incarnation) spawned(rank, pid int, how uint64) {
	r := &inc.ranks[rank]
	if how == spawnHeld || how == spawnFree {
		inc.holding(rank, pid, how == spawnHeld)
	}
	if how == spawnFree {
		return
	}
	if r.pid != pid { // not told when it was restored
		r.pid = pid
		r.link.pids = append(r.link.pids, pid)
	}
	if how == spawnWaits {
		inc.restored(rank)
		return
	}
	if inc.reach(rank, phaseSpawned) == len(inc.ranks) {
		inc.h.state = "running"
		inc.h.verbose("ranks started: %d", len(inc.ranks))
	}
}

func (inc *incarnation) exited(rank int, status syscall.WaitStatus, text string) {
	r := &inc.ranks[rank]
	if r.phase == phaseExited {
		return
	}
	before := r.phase
	for i, pid := range r.link.pids {
		if pid == r.pid {
			r.link.pids = append(r.link.pids[:i], r.link.pids[i+1:]...)
			break
		}
	}
	inc.reach(rank, phaseExited)
	inc.h.verbose("rank %d has ended, %s", rank, describeStatus(status))
	switch {
	case text == "":
	case inc.wholeFrom(): // perhaps another snapshot can be
		inc.causes.set(certain, verdict{code: ExitFailed, rank: rank, died: true, text: fmt.Sprintf("rank %d could not be restored: %s", rank, text)})
	default:
		inc.causes.set(certain, verdict{code: ExitCannotExec, rank: rank, text: fmt.Sprintf("rank %d could not be started: %s", rank, text)})
	}
	failed := text != "" || inc.causes.exited(rank, status, before, inc.count[phaseGreeted] > 0)
	if before < phaseFinal && before >= phaseGreeted || failed {
		inc.step(ckpt.HeadEvent{Type: ckpt.HvDied, Rank: rank, Err: describeStatus(status)})
	}
	inc.judge()
}

func describeStatus(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "killed by " + signalName(s.Signal())
	}
	return fmt.Sprintf("status %d", s.ExitStatus())
}

// fail ends the incarnation for a cause of its own.
func (inc *incarnation) fail(v verdict) {
	inc.causes.set(certain, v)
	inc.judge()
}

// judge ends the incarnation when its first cause is known, or when what is
// known may be a consequence and no cause turns up for a while.
func (inc *incarnation) judge() {
	v, wait := inc.causes.verdict()
	switch {
	case inc.ending != nil || v == nil:
	case wait == 0:
		inc.end(*v, true)
	case inc.grace == nil || wait < inc.graceFor:
		if inc.grace != nil {
			inc.grace.Stop()
		}
		inc.graceFor = wait
		inc.grace = inc.h.after(wait, func() {
			if v, _ := inc.causes.verdict(); inc.ending == nil {
				inc.end(*v, true)
			}
		})
	}
}

// end ends all ranks: politely first if asked to, and if that is worth it.
func (inc *incarnation) end(v verdict, polite bool) {
	if inc.ending == nil {
		inc.ending = &v
		inc.h.state = "ending"
		if polite && !inc.back.waits() && !(v.died && inc.h.restarts < inc.h.opt.Restarts) {
			inc.signal(syscall.SIGTERM)
			inc.signal(syscall.SIGCONT)
			inc.h.after(endGrace, inc.kill)
			return
		}
	}
	inc.kill()
}

// endGrace is how long ranks have after SIGTERM.
const endGrace = time.Second

// kill ends all ranks at once; agents that do not manage to are killed too.
func (inc *incarnation) kill() {
	for _, l := range inc.links {
		l.out.send(oob.Msg{Kind: oob.KillAll, From: oob.Head, To: oob.AgentAddr(l.index)})
	}
	inc.h.after(agentGrace, func() {
		for _, l := range inc.links {
			if !l.eof && !l.bye {
				l.agent.Kill()
			}
		}
	})
	inc.finished()
}

// agentGrace is how long an agent has to end its ranks.
const agentGrace = 10 * time.Second

// signal passes a signal on to all ranks.
func (inc *incarnation) signal(sig syscall.Signal) {
	for _, l := range inc.links {
		l.out.send(oob.Msg{Kind: oob.Signal, From: oob.Head, To: oob.AgentAddr(l.index), A: uint64(sig)})
	}
}

// rankList names ranks, which are in order.
func rankList(ranks []int) string { return wireup.Ranks(ranks) }

// finished tells the head once, when no rank runs and no commit is being written.
func (inc *incarnation) finished() {
	if inc.closing || inc.store.busy > 0 || inc != inc.h.inc {
		return
	}
	for _, l := range inc.links {
		idle := len(l.ranks) == 0 && inc.ending != nil // it waits for orders that will not come
		if !l.eof && !idle || l.lost && !l.gone {
			return
		}
	}
	inc.closing = true
	inc.tooEarly(0)
	if inc.ticker != nil { // else the agents could not be started
		inc.ticker.Stop()
	}
	for _, t := range inc.timers {
		t.Stop()
	}
	v := inc.ending
	if v == nil {
		v, _ = inc.causes.verdict()
	}
	inc.h.over(v)
}
