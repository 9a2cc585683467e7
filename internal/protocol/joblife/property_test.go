package joblife

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// TestLives drives jobs with agents and ranks that start, fail and vanish at any
// moment, with users who want things, and with frames that are of no use. What
// must hold of every job is looked at after each step; see check.
func TestLives(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 300
	}
	var seen struct{ ends, restarts, lost, cuts, moves, back int }
	for seed := range uint64(n) {
		w := newWorld(seed)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, w.log)
		}
		seen.ends++
		seen.restarts += w.restarts
		seen.lost += w.lost
		seen.cuts += w.cuts
		seen.moves += w.moved
		seen.back += w.back
	}
	t.Logf("%+v", seen)
	if seen.moves < n/40 || seen.back < n/100 {
		t.Errorf("of %d jobs %d moves and %d reverts after the switch: that tests little", n, seen.moves, seen.back)
	}
	if seen.restarts < n/20 || seen.lost < n/20 || seen.cuts < n/40 {
		t.Errorf("of %d jobs %d restarts, %d lost agents and %d nodes left out: that tests little", n, seen.restarts, seen.lost, seen.cuts)
	}
}

// world is one job and all that is around it.
type world struct {
	rng    *rand.Rand
	j      *Job
	np     int
	log    []byte
	steps  int
	calm   bool // nothing goes wrong any more: the job must come to its end
	agents []*testAgent
	due    []Event // answers to actions, in any order, except those of one agent
	timers map[uint64]bool

	causes             map[int]bool // ranks that have died of themselves in this life
	out                map[int]bool // agents whose nodes were left out in this life
	cuts               int
	lost               int
	restarts           int
	verdicts           int
	ended              bool
	outside            bool // a user has ended the job
	storing            bool
	orders             uint64          // of users who hold and suspend so far
	asked              map[uint64]bool // those not answered
	moves, moved, back int
	moving             bool           // it is for moves
	before             uint64         // the incarnation before the newest
	inc                map[int]uint64 // of each life, now
	queue              []Event        // to be fed after the actions of the present step
	feeding            bool
}

type testAgent struct {
	life, index int
	ranks       []*testRank
	ordered     bool
	open        bool // its stream
	dead        bool // it, and its ranks
	gone        bool // and that was told
	told        bool // that its stream has ended
	killed      bool
	unborn      bool // the head has not heard that it was started
	joins       bool // it has been started for a move, and was not told to restore ranks
}

type testRank struct {
	rank   int
	phase  Phase
	dead   bool
	owed   bool   // its Exit has not been sent
	with   uint64 // its status
	inc    uint64 // its incarnation
	stands bool   // captured, or restored and not let go
	fresh  bool   // begun for a move that is not over
	ready  bool   // its gate is closed
}

func newWorld(seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{rng: rng, np: 1 + rng.IntN(4), timers: map[uint64]bool{}, causes: map[int]bool{}, inc: map[int]uint64{}, asked: map[uint64]bool{}, moving: seed%3 == 0}
	w.j = New(Config{Size: w.np, Restarts: rng.IntN(3), Built: rng.IntN(4) > 0, Heartbeat: 1000})
	return w
}

// rare is one of n as long as things go wrong; in a job for moves little does.
func (w *world) rare(n int) bool {
	if w.moving {
		n *= 10
	}
	return !w.calm && w.one(n)
}

func (w *world) one(n int) bool { return w.rng.IntN(n) == 0 }

func (w *world) run() (err error) {
	defer func() {
		if e, ok := recover().(error); ok && err == nil {
			err = e
		}
	}()
	w.feed(Event{Type: EvStart})
	for w.steps = 0; !w.ended; w.steps++ {
		w.calm = w.steps > 400 && !w.moving || w.steps > 800
		if w.steps > 20_000 {
			return fmt.Errorf("no end: %s", w.j.State())
		}
		w.step()
	}
	if w.verdicts != 1 {
		return fmt.Errorf("%d verdicts", w.verdicts)
	}
	if len(w.asked) > 0 {
		return fmt.Errorf("not answered: %v", w.asked)
	}
	for _, a := range w.agents {
		if !a.gone {
			return fmt.Errorf("agent %d.%d is still there at the end", a.life, a.index)
		}
	}
	if out := w.j.Step(Event{Type: EvInterrupt}); len(out) > 0 {
		return fmt.Errorf("after the end: %s", say(&out[0]))
	}
	return nil
}

func (w *world) fail(format string, args ...any) { panic(fmt.Errorf(format, args...)) }

func (w *world) step() {
	if w.calm && w.storing {
		w.storing = false
		w.feed(Event{Type: EvStoring})
	}
	if w.calm && w.j.Suspended() {
		w.order(EvResume)
	}
	switch w.rng.IntN(8) {
	case 0, 1:
		if len(w.due) > 0 {
			i := w.rng.IntN(len(w.due))
			ev := w.due[i]
			w.due = append(w.due[:i], w.due[i+1:]...)
			w.feed(ev)
		}
	case 2:
		if w.rare(6) {
			w.outsider()
		}
		if w.moving && !w.calm && w.one(3) {
			w.move()
		}
		if !w.untold() && (w.calm || w.rare(20)) {
			for id := range w.timers {
				delete(w.timers, id)
				w.feed(Event{Type: EvTimeout, Timer: id})
				break
			}
		}
	case 3:
		w.feed(Event{Type: EvTick, Life: w.j.Life(), Slow: float64(w.rng.IntN(4))})
	default:
		if len(w.agents) > 0 {
			w.agents[w.rng.IntN(len(w.agents))].step(w)
		}
	}
}

// untold reports whether a death is on its way to the head: no timer is as fast.
func (w *world) untold() bool {
	for _, a := range w.agents {
		for _, r := range a.ranks {
			if r.owed && w.causes[r.rank] {
				return true
			}
		}
	}
	return false
}

// outsider is a user, a signal, a storage, or nonsense.
func (w *world) outsider() {
	w.outside = w.outside || w.one(3)
	switch k := w.rng.IntN(16); {
	case k < 9 && w.one(2):
		w.move()
	case k >= 12:
		w.order([]EventType{EvHold, EvRelease, EvSuspend, EvResume}[k-12])
	case k < 3:
		w.storing = !w.storing
		n := 0
		if w.storing {
			n = 1
		}
		w.feed(Event{Type: EvStoring, Works: n})
	case k < 5:
		w.feed(Event{Type: EvRequest, Request: ckpt.Request{ID: uint64(w.steps), Mode: oob.ModeNative}})
	case k < 9:
		w.feed(w.nonsense())
	case !w.outside:
	case k == 9:
		w.feed(Event{Type: EvFinish, Polite: w.one(2), Verdict: &Verdict{Code: 143, Rank: -1, Text: "ended"}})
	case k == 10:
		w.feed(Event{Type: EvInterrupt})
	default:
		w.feed(Event{Type: EvStop, Signal: syscall.SIGTERM, Verdict: &Verdict{Code: 143, Rank: -1, Text: "told"}})
	}
}

// order is one of a user who holds or suspends.
func (w *world) order(t EventType) {
	w.orders++
	w.asked[w.orders] = true
	w.feed(Event{Type: t, ID: w.orders, Text: "somebody"})
}

// nonsense is a frame that must be harmless: of another life or incarnation, of a
// rank that is not the agent's, of nobody.
func (w *world) nonsense() Event {
	kinds := []oob.Kind{oob.Exit, oob.Up, oob.Spawn, oob.AbortJob, oob.Failure, oob.Hello, oob.Ready, oob.FinalizeWant, oob.Address, oob.Suspect, oob.Lookup}
	ev := Event{Type: EvFrame, Life: w.j.Life(), Agent: w.rng.IntN(3) - 1}
	ev.Msg = oob.Msg{Kind: kinds[w.rng.IntN(len(kinds))], From: int32(w.rng.IntN(w.np)), To: oob.Head, A: w.rng.Uint64N(300), Data: []byte("nonsense")}
	switch w.rng.IntN(3) {
	case 0:
		ev.Life--
	case 1:
		ev.Msg.Incarnation = 7
	default:
		ev.Msg.From = int32(w.np + w.rng.IntN(3))
	}
	return ev
}

// step is something that an agent or one of its ranks does.
func (a *testAgent) step(w *world) {
	switch {
	case a.unborn:
	case a.killed && !a.dead:
		if w.one(3) {
			a.die()
		}
	case a.dead && !a.told:
		a.told = true
		w.feed(Event{Type: EvLinkEnded, Life: a.life, Agent: a.index})
	case a.dead && !a.gone:
		a.gone = true
		w.feed(Event{Type: EvGone, Life: a.life, Agent: a.index})
	case a.dead || a.told:
	case w.rare(100):
		w.lost++
		w.logf("agent %d.%d loses its stream", a.life, a.index)
		a.told = true
		w.feed(Event{Type: EvLinkEnded, Life: a.life, Agent: a.index})
	case w.rare(100), a.fresh() && !w.calm && w.one(60):
		w.lost++
		w.logf("agent %d.%d dies", a.life, a.index)
		a.die()
	case a.ordered && !a.joins && len(a.ranks) > 0 && a.allDead():
		a.told = true
		w.feed(Event{Type: EvLinkEnded, Life: a.life, Agent: a.index})
	case a.joins || len(a.ranks) == 0:
	case a.ordered:
		a.ranks[w.rng.IntN(len(a.ranks))].step(w, a)
	}
}

func (a *testAgent) allDead() bool {
	for _, r := range a.ranks {
		if !r.dead || r.owed {
			return false
		}
	}
	return true
}

// die ends the agent and its ranks, of which nobody says anything any more.
func (a *testAgent) die() {
	a.dead = true
	for _, r := range a.ranks {
		r.dead, r.owed = true, false
	}
}

// end ends the rank; its agent will say so.
func (r *testRank) end(status uint64) {
	if !r.dead {
		r.dead, r.owed, r.with = true, true, status
	}
}

// say sends a frame of the rank's.
func (r *testRank) say(w *world, a *testAgent, m oob.Msg) {
	m.From, m.To = int32(r.rank), oob.Head
	w.feed(Event{Type: EvFrame, Life: a.life, Agent: a.index, Msg: m})
}

func (r *testRank) step(w *world, a *testAgent) {
	switch {
	case r.owed:
		r.owed = false
		r.say(w, a, oob.Msg{Kind: oob.Exit, A: r.with})
	case r.stands && !r.fresh && !r.dead && !w.calm && w.one(40): // captured
		w.causes[r.rank] = true
		r.end(9)
	case r.dead || r.stands && r.phase != None:
	case r.phase == None && r.ready && !w.calm && w.one(8): // let go, and broken
		r.end(1 << 8)
	case r.stands: // restored
		r.phase = Spawned
		if !w.calm && w.one(10) {
			r.end(1 << 8)
			return
		}
		r.say(w, a, oob.Msg{Kind: oob.Spawn, A: oob.SpawnWaits, B: 88})
	case w.rare(150):
		w.causes[r.rank] = true
		w.logf("rank %d of life %d dies", r.rank, a.life)
		r.end(9)
	case len(w.causes) > 0 && r.phase == Up && !r.ready && w.one(4): // it meets the other's death
		r.say(w, a, oob.Msg{Kind: oob.Failure, B: 1, Data: []byte("peer failed")})
		r.end(1 << 8)
	case r.phase == Up && !r.ready && w.rare(8): // a path is cut, or mended
		silent := []uint64{0, 10_000, 14_000, 15_000}[w.rng.IntN(4)]
		r.say(w, a, oob.Msg{Kind: oob.Suspect, A: w.rng.Uint64N(uint64(w.np)), B: silent, Incarnation: r.inc})
	case r.phase == None:
		r.phase = Spawned
		r.say(w, a, oob.Msg{Kind: oob.Spawn, A: oob.SpawnRuns, B: 77})
	case r.phase == Spawned:
		r.phase = Greeted
		if !w.calm && r.ready && w.one(25) {
			r.say(w, a, oob.Msg{Kind: oob.Failure, Incarnation: r.inc, B: oob.FailureStands, Data: []byte("no route")})
			r.phase = Final // it stands
			return
		}
		r.say(w, a, oob.Msg{Kind: oob.Hello, Incarnation: r.inc, A: oob.VersionMin, B: oob.VersionMax, Data: []byte(`{"role":"rank"}`)})
	case r.phase == Greeted:
		r.phase = Addressed
		r.say(w, a, oob.Msg{Kind: oob.Up, Incarnation: r.inc})
	case r.phase == Up && !r.ready && (w.calm || w.rare(50)):
		r.phase = Final
		r.say(w, a, oob.Msg{Kind: oob.FinalizeWant, Incarnation: r.inc})
	}
}

func (w *world) logf(format string, args ...any) {
	w.log = fmt.Appendf(w.log, "%5d  "+format+"\n", append([]any{w.steps}, args...)...)
}

func (w *world) feed(ev Event) {
	w.queue = append(w.queue, ev)
	if w.feeding {
		return
	}
	w.feeding = true
	for len(w.queue) > 0 {
		ev := w.queue[0]
		w.queue = w.queue[1:]
		w.logf("> type %d life %d agent %d rank %d kind %d timer %d", ev.Type, ev.Life, ev.Agent, ev.Msg.From, ev.Msg.Kind, ev.Timer)
		w.born(&ev)
		for _, a := range w.j.Step(ev) {
			w.logf("\t%s", say(&a))
			w.check(&a)
			w.do(&a)
		}
	}
	w.feeding = false
}

// check is what must hold whatever happens.
func (w *world) check(a *Action) {
	if w.ended {
		w.fail("%s after the end", say(a))
	}
	switch a.Type {
	case ActSend, ActKill:
		x := w.agent(a.Life, a.Agent)
		if x.gone {
			w.fail("%s, which is gone", say(a))
		}
		if bye := a.Msg.Kind == oob.KillAll && a.Msg.B == oob.Goodbye; a.Life != w.j.Life() && !bye && !(a.Type == ActKill && w.verdicts > 0) {
			w.fail("%s, of a life that is over", say(a))
		}
		if a.Msg.Incarnation != 0 && a.Msg.Incarnation != w.inc[a.Life] {
			w.fail("%s in the name of incarnation %d", say(a), a.Msg.Incarnation)
		}
	case ActMoved, ActHeld:
		if !w.asked[a.ID] {
			w.fail("an answer to order %d, which is not asked", a.ID)
		}
		delete(w.asked, a.ID)
	case ActBegin:
		if w.j.Suspended() {
			w.fail("life %d begins while the job is suspended", a.Life)
		}
		for _, x := range w.agents {
			if !x.allDead() && x.ordered {
				w.fail("life %d begins while ranks of life %d may be alive", a.Life, x.life)
			}
		}
		if w.outside && w.j.end != nil {
			w.fail("life %d begins although the job was ended", a.Life)
		}
	case ActLeaveOut:
		w.leftOut(a)
	case ActVerdict:
		if w.verdicts++; w.verdicts > 1 {
			w.fail("a second verdict")
		}
		w.judged(&a.Verdict)
	case ActChoose:
		w.judged(&a.Verdict)
		if w.storing {
			w.fail("life %d is over while something is being stored", a.Life)
		}
	}
}

// leftOut looks at an order to leave out a node: it comes with the end of the life, and it is never the
// head's own: of each pair there is another.
func (w *world) leftOut(a *Action) {
	w.cuts++
	w.out[a.Agent] = true
	if l := w.j.life; a.Life != l.n || l.ending == nil {
		w.fail("%s, and the life goes on", say(a))
	} else if w.out[0] {
		w.fail("%s: the nodes left out are %v of %d", say(a), w.out, len(l.links))
	}
}

// judged looks at a verdict: a rank that only met another's death is not its cause.
func (w *world) judged(v *Verdict) {
	if !w.outside && v.Rank >= 0 && len(w.causes) > 0 && !w.causes[v.Rank] {
		w.fail("the cause is rank %d (%s), those that died of themselves are %v", v.Rank, v.Text, w.causes)
	}
}

func (w *world) agent(life, i int) *testAgent {
	for _, a := range w.agents {
		if a.life == life && a.index == i {
			return a
		}
	}
	w.fail("agent %d.%d does not exist", life, i)
	return nil
}

// do is what a driver does. Some of it takes its time.
func (w *world) do(a *Action) {
	switch a.Type {
	case ActBegin:
		w.begin(a.Life)
	case ActOrder:
		ev := Event{Type: EvOrdered, Life: a.Life}
		if !w.calm && w.one(12) {
			ev.Verdict = &Verdict{Code: Failed, Rank: -1, Text: "no such image"}
		} else {
			for _, x := range w.agents {
				x.ordered = x.ordered || x.life == a.Life
			}
		}
		w.feed(ev)
	case ActSend:
		w.agent(a.Life, a.Agent).take(w, &a.Msg)
	case ActKill:
		w.agent(a.Life, a.Agent).killed = true
	case ActJoin, ActRestore, ActSwitch, ActMoved, ActCkpt:
		w.doMove(a)
	case ActTimer:
		w.timers[a.Timer] = true
	case ActStopTimer:
		if !w.timers[a.Timer] {
			w.fail("timer %d does not run", a.Timer)
		}
		delete(w.timers, a.Timer)
	case ActChoose:
		w.restarts++
		w.due = append(w.due, Event{Type: EvChosen, Refused: w.one(5), Snapshot: w.rng.IntN(3)})
	case ActVerdict:
		w.due = append(w.due, Event{Type: EvCleaned})
	case ActEnd:
		w.ended = true
	}
}

func (w *world) begin(life int) {
	ev := Event{Type: EvBegun, Life: life}
	ev.Begun = Begun{Incarnation: incarnation(life), Agents: testAgents(w.np, 1+w.rng.IntN(w.np))}
	if !w.calm && w.one(12) {
		ev.Verdict = &Verdict{Code: Failed, Rank: -1, Text: "no agent"}
	}
	w.causes, w.out = map[int]bool{}, map[int]bool{}
	w.inc[life] = incarnation(life)
	for i, x := range ev.Begun.Agents {
		a := &testAgent{life: life, index: i, open: true}
		for _, rank := range x.Ranks {
			a.ranks = append(a.ranks, &testRank{rank: rank, inc: incarnation(life)})
		}
		w.agents = append(w.agents, a)
	}
	w.feed(ev)
	if life == 1 && !w.j.program {
		w.due = append(w.due, Event{Type: EvProgram})
	}
}

// take is what an agent does with a frame.
func (a *testAgent) take(w *world, m *oob.Msg) {
	switch {
	case a.dead:
	case m.Kind == oob.Ping && !a.told:
		w.due = append(w.due, Event{Type: EvFrame, Life: a.life, Agent: a.index, Msg: oob.Msg{Kind: oob.Ping, From: oob.AgentAddr(a.index), To: oob.Head, A: m.A}})
	case m.Kind == oob.KillAll && m.B == oob.Goodbye:
		a.die()
	case m.Kind == oob.KillAll && m.To >= 0: // a process that was replaced
		for _, r := range a.ranks {
			if r.rank == int(m.To) && !r.stands {
				w.fail("rank %d is to be ended, and is not the one that was captured", m.To)
			}
			if r.rank == int(m.To) {
				r.end(9)
			}
		}
	case m.Kind == oob.KillAll || m.Kind == oob.Signal && m.A != uint64(syscall.SIGCONT) && m.A != uint64(syscall.SIGSTOP):
		for _, r := range a.ranks {
			if m.Kind == oob.KillAll {
				r.end(9)
			} else if !r.stands && w.one(3) {
				r.end(m.A)
			}
		}
	case m.Kind == oob.Running:
		w.running(a, m)
	case m.Kind >= oob.Close && m.Kind <= oob.Commit || m.Kind == oob.Start:
		a.protocol(w, m)
	case m.Kind == oob.FinalizeGo:
		for _, r := range a.ranks {
			if r.rank == int(m.To) && !r.stands {
				r.end(0)
			}
		}
	}
}
