package joblife

import (
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/protocol/wireup"
)

// life is one incarnation: its links, its ranks, its machines.
type life struct {
	j        *Job
	n        int
	from     int    // the snapshot that it began from, as far as this machine has chosen it; 0: none
	id       uint64 // the incarnation
	begun    bool
	starting bool // agents are being started for a move
	given    bool // the agents have their orders

	links  []*link
	ranks  []rank
	count  [phases]int // number of ranks that have reached each phase
	wires  *wireup.Head
	routes *wireup.Summary // which transports carry what; nil: not known yet
	denied bool            // the user was told of a denial since then
	unmet  int             // the first rank that ended without a greeting; -1: none
	first  int             // the first that greeted; -1: none

	ckpt   *ckpt.Head
	clocks map[uint64]uint64 // its timers: our ids
	early  []early
	back   back
	move   *move    // nil: none is under way
	past   []uint64 // incarnations before id, within this life
	moved  []uint64 // ids of moves that the checkpoint machine was asked for
	// its images come from other nodes
	fetched bool
	slow    float64 // the slowdown of the machine, at the newest tick

	causes   causes
	cuts     cuts
	grace    uint64 // until a consequence counts as the cause; 0: no timer runs
	graceFor int64
	own      []uint64 // timers that end with this life
	ending   *Verdict // why it is being ended; nil: it is not
	guessed  bool     // the verdict is a consequence, whose cause was not reported in time
	leaving  bool     // a rank has entered Finalize
	closing  bool     // no process of it runs any more
}

// rank describes one rank.
type rank struct {
	phase Phase
	pid   int
	link  *link // nil: it has not been ordered yet
	hello oob.HelloInfo
	looks bool // it understands oob.Look
	moves bool // it understands oob.StartConfig.Moves
	hears bool // it understands oob.Health
}

func newLife(j *Job, n int) *life {
	return &life{j: j, n: n, ranks: make([]rank, j.cfg.Size), wires: wireup.New(j.cfg.Size), unmet: -1, first: -1, slow: 1,
		clocks: map[uint64]uint64{}, causes: causes{likely: j.cfg.LikelyMillis, consequence: j.cfg.ConsequenceMillis}}
}

// take takes an event of this life.
func (l *life) take(ev *Event) {
	switch ev.Type {
	case EvBegun:
		l.begins(ev)
	case EvOrdered:
		l.ordered(ev.Verdict)
	case EvFrame:
		if k := l.link(ev.Agent); k != nil {
			l.frame(k, &ev.Msg)
		}
	case EvJoined:
		l.joined(ev)
	case EvLinkEnded:
		if k := l.link(ev.Agent); k != nil {
			l.linkEnded(k)
		}
	case EvTick:
		l.slow = max(1, ev.Slow)
		l.ping()
	case EvFail:
		if ev.Polite {
			l.fail(*ev.Verdict)
		} else {
			l.end(ev.Verdict, false)
		}
	case EvCkpt:
		l.step(ev.Ckpt)
	}
}

func (l *life) act(a Action) {
	a.Life = l.n
	l.j.act(a)
}

// after is a timer that ends with the life.
func (l *life) after(millis int64, f func()) uint64 {
	id := l.j.after(millis, f)
	l.own = append(l.own, id)
	return id
}

// send sends to an agent.
func (l *life) send(k *link, m oob.Msg) {
	m.From = oob.Head
	l.act(Action{Type: ActSend, Agent: k.index, Msg: m})
}

// pass sends a frame to a rank, through its agent.
func (l *life) pass(m oob.Msg) {
	if k := l.ranks[m.To].link; k != nil && !k.ended {
		l.act(Action{Type: ActSend, Agent: k.index, Msg: m})
	}
}

// everyone sends a frame to all agents that are there, unless the life is over.
func (l *life) everyone(m oob.Msg) {
	for _, k := range l.links {
		if k.ended || l.closing {
			continue
		}
		m.To = oob.AgentAddr(k.index)
		l.send(k, m)
	}
}

// begins takes the agents that were started. Agents of earlier lives are dismissed now, because the
// new ones are ready to remove what the job has left.
func (l *life) begins(ev *Event) {
	if l.begun {
		return
	}
	l.begun = true
	l.id = ev.Begun.Incarnation
	for i, a := range ev.Begun.Agents {
		l.links = append(l.links, &link{index: i, Agent: a})
	}
	l.place()
	cfg := l.j.cfg.Ckpt
	cfg.Size, cfg.Incarnation = l.j.cfg.Size, l.id
	l.ckpt = ckpt.NewHead(cfg)
	l.back.limit, l.fetched = ev.Begun.Restore, ev.Begun.Fetched
	l.beginHeld()
	if ev.Verdict != nil {
		l.end(ev.Verdict, false)
		return
	}
	for _, old := range l.j.lives[:l.n-1] {
		old.dismiss()
	}
	if l.ending != nil {
		l.j.finished()
		return
	}
	if !l.j.program {
		l.j.state = "building"
		return
	}
	l.order()
}

// place says which ranks share a node.
func (l *life) place() {
	node := make([]int32, l.j.cfg.Size)
	for _, k := range l.links {
		for _, r := range k.Ranks {
			node[r] = int32(k.Node)
		}
	}
	l.wires.Place(node)
	if l.j.cfg.AskFrom != 0 {
		l.wires.AskFrom(l.j.cfg.AskFrom)
	}
}

// order tells the agents to start their ranks.
func (l *life) order() {
	if l.ending == nil && l.begun && !l.given {
		l.act(Action{Type: ActOrder})
	}
}

func (l *life) ordered(why *Verdict) {
	if why != nil {
		l.end(why, false)
		return
	}
	if l.given {
		return
	}
	l.given = true
	for _, k := range l.links {
		for _, rank := range k.Ranks {
			l.ranks[rank].link = k
		}
	}
	l.j.state = "starting"
	l.expectBack()
}

// of reports whether a rank belongs to an agent.
func (l *life) of(k *link, rank int) bool {
	return rank >= 0 && rank < len(l.ranks) && l.ranks[rank].link == k
}

// frame takes a frame of an agent or, through it, of a rank.
func (l *life) frame(k *link, m *oob.Msg) {
	k.silent, k.waited = 0, 0
	l.trust(k)
	rank := int(m.From)
	switch {
	case m.Kind == oob.Ping:
		if m.A == pingStopped {
			l.hasStopped(k)
		}
	case m.Kind == oob.Output || m.Kind == oob.Input || m.Kind == oob.Seen || m.Kind == oob.Tail || m.Kind == oob.Bound || m.Kind == oob.Offload: // the driver's
	case m.Incarnation != 0 && m.Incarnation != l.id && !l.abortsLate(m):
		// The frame is from an earlier life, for example of a process that was imaged while it sent
		// it.
	case m.Kind == oob.Exit && m.From == oob.AgentAddr(k.index):
		l.linkEnded(k)
	case m.Kind == oob.Dests:
		l.step(ckpt.HeadEvent{Type: ckpt.HvMsg, Msg: *m})
	case l.offStage(k, rank, m):
	case !l.of(k, rank): // an agent speaks for its own ranks
	case m.To >= 0:
		if int(m.To) < len(l.ranks) {
			l.pass(*m)
		}
	default:
		l.ofRank(rank, m)
	}
}

func (l *life) ofRank(rank int, m *oob.Msg) {
	switch m.Kind {
	case oob.Spawn:
		l.spawned(rank, m)
	case oob.Exit:
		l.exited(rank, syscall.WaitStatus(m.A), string(m.Data))
	case oob.Hello:
		l.greeted(rank, m)
	case oob.Address:
		l.addressed(rank, m)
	case oob.Reach:
		if l.routes == nil {
			l.reaches(rank, m)
		} else {
			l.forgoes(rank, m)
		}
	case oob.Lookup:
		l.locate(rank, m)
	case oob.Up:
		l.up(rank)
	case oob.AbortJob:
		l.causes.aborted(rank, int(int32(m.A)), m.B, string(m.Data))
		l.judge()
	case oob.Failure:
		if m.B == oob.FailureStands || l.comes(rank) {
			l.cannotCome(rank, string(m.Data))
			return
		}
		if l.ranks[rank].phase >= Final {
			return // all ranks were released: one has already ended
		}
		l.causes.failing(rank, m.B == 1, l.j.RestartsLeft(), string(m.Data))
		l.judge()
	case oob.Suspect:
		l.suspects(rank, m)
	default:
		l.leaving = l.leaving || m.Kind == oob.FinalizeWant
		l.step(ckpt.HeadEvent{Type: ckpt.HvMsg, Msg: *m})
	}
}

// reach records that a rank has reached a phase. It returns how many ranks have.
func (l *life) reach(rank int, p Phase) int {
	if l.ranks[rank].phase < p {
		l.ranks[rank].phase = p
		l.count[p]++
		l.back.moved = true
	}
	return l.count[p]
}

// spawned takes an agent's report on a process that it has made or let go.
func (l *life) spawned(rank int, m *oob.Msg) {
	r, pid := &l.ranks[rank], int(m.B)
	if r.phase == Exited {
		return
	}
	if len(m.Data) > 0 {
		l.act(Action{Type: ActSay, Text: fmt.Sprintf("rank %d: %s", rank, m.Data), Detail: m.A != oob.SpawnWaits})
	}
	if m.A == oob.SpawnHeld || m.A == oob.SpawnFree {
		l.holding(rank, pid, m.A == oob.SpawnHeld)
	}
	if m.A == oob.SpawnFree {
		return
	}
	if m.A != oob.SpawnHeld { // known by then
		r.pid = pid
	}
	if m.A == oob.SpawnWaits {
		l.restored(rank)
		return
	}
	if l.reach(rank, Spawned) == len(l.ranks) && l.ending == nil && l.move == nil {
		l.j.state = "running"
		l.j.detail("ranks started: %d", len(l.ranks))
	}
}

// exited takes a rank's end, which its agent has reaped.
func (l *life) exited(rank int, status syscall.WaitStatus, text string) {
	before := l.ranks[rank].phase
	if before == Exited {
		return
	}
	if l.comes(rank) {
		l.moveFails(fmt.Sprintf("rank %d has ended on its way up, %s", rank, describe(status)))
		return
	}
	if l.ranks[rank].hello.Role == "" && l.unmet < 0 {
		l.unmet = rank
	}
	l.reach(rank, Exited)
	l.j.detail("rank %d has ended, %s", rank, describe(status))
	switch {
	case text == "":
	case l.back.limit > 0 || l.fetched: // another snapshot may be restorable
		l.causes.set(certain, Verdict{Code: Failed, Rank: rank, Died: true, Text: fmt.Sprintf("rank %d could not be restored: %s", rank, text)})
	default:
		l.causes.set(certain, Verdict{Code: CannotExec, Rank: rank, Text: fmt.Sprintf("rank %d could not be started: %s", rank, text)})
	}
	failed := text != "" || l.guessed && !byItself(status) || l.causes.exited(rank, status, before, l.count[Greeted] > 0)
	if v, _ := l.causes.verdict(); failed && l.guessed && v.Rank == rank {
		l.ending = v // it is reported after its consequences
	}
	if before < Final && before >= Greeted || failed {
		l.step(ckpt.HeadEvent{Type: ckpt.HvDied, Rank: rank, Err: describe(status)})
		l.health(oob.HealthFailed, rank)
	}
	l.judge()
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "killed by " + SignalName(s.Signal())
	}
	return fmt.Sprintf("status %d", s.ExitStatus())
}

// fail ends the life for a cause of its own.
func (l *life) fail(v Verdict) {
	l.causes.set(certain, v)
	l.judge()
}

// judge ends the life when its first cause is known. A cause that may be a consequence counts only if no surer
// one arrives for a while.
func (l *life) judge() {
	v, wait := l.causes.verdict()
	switch {
	case l.ending != nil || v == nil:
	case wait == 0:
		l.end(v, true)
	case l.grace == 0 || wait < l.graceFor:
		l.j.stop(l.grace)
		l.graceFor = wait
		l.grace = l.after(int64(float64(wait)*l.slow), func() { // on a slow machine the report of a death is late, too
			if v, wait := l.causes.verdict(); l.ending == nil {
				l.end(v, true)
				l.guessed = wait == l.causes.consequence && l.j.RestartsLeft() // then ranks are killed: a SIGTERM could change their exit
			}
		})
	}
}

// byItself reports whether a rank that was to be killed had ended before.
func byItself(s syscall.WaitStatus) bool { return !s.Signaled() || s.Signal() != syscall.SIGKILL }

const (
	endMillis   = 1000   // that ranks have after SIGTERM
	agentMillis = 10_000 // that an agent has to end its ranks
	finalMillis = 2000   // the same, after a final order
)

// end ends all ranks. If asked to, and if it makes sense, it does so politely first.
func (l *life) end(v *Verdict, polite bool) {
	if l.closing {
		return
	}
	l.j.stop(l.grace)
	l.j.endStopping()
	if l.ending == nil {
		l.ending = v
		l.moveEnds(v)
		l.j.state = "ending"
		restarts := v.Died && l.j.RestartsLeft()
		if restarts { // it may have to wait until a lost node cannot act any more
			l.j.state = "restarting"
		}
		if polite && l.given && !l.back.waits() && !restarts {
			l.signal(syscall.SIGTERM)
			l.signal(syscall.SIGCONT)
			l.after(endMillis, l.kill)
			return
		}
	}
	l.kill()
}

// kill ends all ranks at once. It also ends agents that do not end theirs in time.
func (l *life) kill() {
	if l.closing {
		return
	}
	for _, k := range l.links {
		if k.joins && !k.busy {
			l.release([]*link{k})
		}
	}
	l.everyone(oob.Msg{Kind: oob.KillAll})
	limit := int64(agentMillis)
	if l.j.obeyed {
		limit = finalMillis
	}
	l.after(limit, func() {
		for _, k := range l.links {
			if !k.ended && !k.bye {
				l.act(Action{Type: ActKill, Agent: k.index})
			}
		}
	})
	l.j.finished()
}

// signal passes a signal on to all ranks.
func (l *life) signal(sig syscall.Signal) {
	l.everyone(oob.Msg{Kind: oob.Signal, A: uint64(sig)})
}

// over reports whether no process of the life runs.
func (l *life) over() bool {
	if l.starting {
		return false
	}
	for _, k := range l.links {
		idle := !l.given && l.ending != nil // the agent waits for orders that will not come
		if !k.ended && !idle || k.lost && !k.gone {
			return false
		}
	}
	return true
}

// close ends all that waits for the life.
func (l *life) close() {
	l.closing = true
	l.tooEarly(0)
	for _, id := range l.own {
		l.j.stop(id)
	}
	for _, id := range slices.Sorted(maps.Values(l.clocks)) {
		l.j.stop(id)
	}
}
