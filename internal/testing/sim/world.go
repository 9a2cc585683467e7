// Package sim runs whole jobs in one process, from a seed. It runs the shipped code of every rank
// and of the head: the engine (internal/rank/engine), the bookmarks, and the machines of the checkpoint
// (internal/protocol/ckpt) and of the job's life (internal/protocol/joblife), the rules of leases (internal/protocol/lease). Network, out-of-band channel and storage
// do whatever real ones may do. The results of the programs are known beforehand.
//
//	program --- engine --- fabric: half-open connections, full sockets, cut frames,
//	   |          |        batches, shared cells and boards, direct reads and writes
//	 Points     driver
//	   and        |
//	 callers  ckpt.Rank --- out-of-band network: any speed, any order between pairs
//	              |
//	        joblife.Job --- storage: slow, failing; agents
//	              |
//	       lease.Granter --- links that are cut, one way too, or slow --- lease.Holder: machines
//	                         that lose power, freeze, come back
//
// Each step of a schedule picks at random who moves: a goroutine of a program makes one call, a
// transport receives a few bytes, one message arrives, one piece of an image is written. Requests
// come at any time. Ranks, agents and the head die at any time. In some schedules agents are on several
// machines with leases, and snapshots lie in their memory; two may be cut from one another, and the head may turn out to be one of two. In some
// ranks are moved to other agents while the others stay, and that fails at any step. Deadlines expire. A job that has
// died, or was stopped, starts again from its newest snapshot, as the next incarnation, over a
// transport that may offer more or less (see shape). What must hold is checked all the while: see
// violate's callers.
//
// One thing runs at a time. A call that blocks has a goroutine of its own, which runs only while
// the simulator stands still (see caller). So a seed has one transcript, as long as the code is the
// same. A failing seed is replayed by
//
//	go test ./internal/testing/sim -run TestReplay -v -sim.seed=N
//	go test ./internal/testing/sim -run TestReplay -v -sim.seed=N -sim.mutant='open at gate'
//
// The transcript begins with the plan. Its last line, VIOLATION, says what does not hold, and in
// which step. The cause stands before it: look first for the gates that closed last. A world.logf at
// the place in question shows more, and changes no schedule as long as it draws nothing from
// world.rng. TestMutants -v prints the seed of each mutant.
package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"

	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
)

// Options choose a schedule.
type Options struct {
	Seed   uint64
	Mutant Mutant
	Log    io.Writer // gets the transcript; nil: none
}

// world is one schedule.
type world struct {
	rng    *rand.Rand
	mutant Mutant
	log    io.Writer
	plan   *plan
	shape  shape // of the transport
	prog   *program
	np     int

	now         int64 // steps
	frozen      int64 // of them, those in which the job was being imaged
	limit       int64
	incarnation uint64
	started     int // incarnations

	head      *head
	machines  []*machine
	headClock drifting
	places    []place   // by rank
	troubles  []trouble // still to come
	repairs   []task
	severed   []severance

	ranks  []*rank
	agents []*ckpt.DestSum
	net    *fabric
	oob    outOfBand
	strays []letter // from streams that have ended
	store  store
	memory memory
	oracle oracle
	origin []*image // what this incarnation was restored from

	requests    int
	asks        []request // still to come
	askAt       int64     // the step in which the next one comes, if the program is as far
	arrived     int       // messages that programs have received, in all incarnations
	deaths      []death   // still to come
	crossing    int       // events at the head so far
	someoneDied bool
	speed       []int // by rank: how often its turn is passed over, of 8
	sizes       map[sizeKey]int
	dice        *rand.Rand // of moves
	travels     []travel   // still to come
	at          []int      // by rank: its agent
	shades      []*shade
	addresses   int        // that ranks have had since the schedule began
	told        [][]uint64 // mutants: what each rank last claimed to have sent
	delayed     []func()   // mutants
	seen        Seen
	over        bool
}

type sizeKey struct {
	ctx uint64
	dst int
}

// violation is the panic that ends a schedule in which something is wrong.
type violation struct{ text string }

func (w *world) violate(format string, args ...any) {
	panic(violation{fmt.Sprintf(format, args...)})
}

func (w *world) logf(format string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, "%7d  %s\n", w.now, fmt.Sprintf(format, args...))
	}
}

// Run runs one schedule to its end and returns what it has come across, and
// an error if an invariant was violated.
func Run(o Options) (seen Seen, err error) {
	w := &world{rng: rand.New(rand.NewPCG(o.Seed, 0x5eed)), mutant: o.Mutant, log: o.Log}
	defer func() {
		seen = w.seen
		switch x := recover().(type) {
		case nil:
		case violation:
			w.logf("VIOLATION: %s", x.text)
			err = fmt.Errorf("seed %d, step %d: %s", o.Seed, w.now, x.text)
		default:
			err = fmt.Errorf("seed %d, step %d: panic: %v\n%s", o.Seed, w.now, x, debug.Stack())
		}
		w.abandon(err == nil)
	}()
	w.plan = newPlan(w.rng)
	if o.Mutant == None || o.Mutant.spreads() {
		w.plan.spread(rand.New(rand.NewPCG(o.Seed, 0xc1c1)), o.Mutant)
	}
	w.dice = rand.New(rand.NewPCG(o.Seed, 0x90a7))
	if o.Mutant == None || o.Mutant.roams() {
		w.plan.roam(w.dice)
	}
	w.np, w.shape = w.plan.np, w.plan.shape
	w.depart()
	w.logf("seed %d: %v", o.Seed, w.plan)
	w.prog = newProgram(w.rng, w.plan)
	w.oracle = newOracle(w)
	w.store.pending = make(map[int]map[int]*image)
	w.newMemory()
	w.asks = w.plan.requests
	w.planDeaths()
	w.newMachines()
	w.planTroubles()
	w.planTravels()
	w.measure()
	w.launch(nil, false, false)
	for !w.over {
		w.step()
	}
	w.end()
	return w.seen, nil
}

// measure notes the largest message of each context to each rank.
func (w *world) measure() {
	w.sizes = make(map[sizeKey]int)
	for i := range w.prog.events {
		e := &w.prog.events[i]
		k := sizeKey{e.ctx, e.dst}
		w.sizes[k] = max(w.sizes[k], e.size)
	}
}

func (w *world) largest(ctx uint64, dst int) int { return w.sizes[sizeKey{ctx, dst}] }

// start makes the ranks of an incarnation from images, or from nothing.
func (w *world) start(images []*image) {
	w.abandon(true)
	w.origin = images
	if w.started > 1 {
		w.reshape()
	}
	w.net = newFabric(w)
	w.ranks = make([]*rank, w.np)
	for i := range w.ranks {
		w.ranks[i] = newRank(w, i)
		a := &w.ranks[i].app
		a.acc = w.prog.acc[i][0]
		if images != nil {
			a.saved = images[i].state
		}
	}
	w.oracle.restore(images)
	for _, r := range w.ranks {
		w.put(int32(r.id), oob.Head, oob.Msg{Kind: oob.Spawn, From: int32(r.id), To: oob.Head, A: oob.SpawnRuns, B: 7})
		if !w.plan.lateInit {
			r.init()
		}
	}
}

// abandon ends what goroutines there are of the present incarnation.
func (w *world) abandon(inOrder bool) {
	for _, r := range w.ranks {
		r.mod.gone = true
	}
	for _, r := range w.ranks {
		r.abandon(inOrder)
	}
}

// depart puts the ranks of a life where they begin.
func (w *world) depart() {
	w.at = make([]int, w.np)
	for r := range w.at {
		w.at[r] = r * w.plan.agents / w.np
	}
}

// reshape gives the next incarnation another transport.
func (w *world) reshape() {
	if w.plan.moves {
		w.shape = newShape(w.rng, w.plan)
		w.logf("the transport is another one: %+v", w.shape)
	}
}

// begin gives the incarnation its identity.
func (w *world) begin() {
	w.started++
	w.incarnation = w.rng.Uint64() | 1
	w.limit = w.now + 3_000_000 + 200_000*int64(w.np)
	w.someoneDied = false
	w.told = make([][]uint64, w.np)
	w.delayed = nil
	w.stale()
	w.depart()
	w.head.nodes = nil
	w.members()
	w.speed = make([]int, w.np)
	w.logf("incarnation %d begins (%x)", w.started, w.incarnation)
}

// step lets somebody move.
func (w *world) step() {
	w.now++
	if w.now > w.limit {
		w.stuck()
	}
	w.headTurn()
	w.nodesTurn()
	w.machinesTurn()
	if w.now >= w.askAt {
		w.maybeAsk()
	}
	w.maybeDie()
	w.maybeTravel()
	if w.now%512 == 0 {
		w.weather()
	}
	if n := len(w.oob.active); n > 0 && w.rng.IntN(3+w.np/4) < 1+min(n, w.np)/4 {
		w.deliver()
		return
	}
	r := w.ranks[w.rng.IntN(w.np)]
	if s := w.speed[r.id]; s > 0 && w.rng.IntN(8) < s {
		return
	}
	if !r.acts() {
		return
	}
	r.step()
	if len(w.delayed) > 0 && w.rng.IntN(60) == 0 {
		w.delayed[0]()
		w.delayed = w.delayed[1:]
	}
}

// maybeAsk makes the next request if the program is as far as planned.
func (w *world) maybeAsk() {
	if len(w.asks) == 0 || w.head.ended || float64(w.arrived) < w.asks[0].at*float64(len(w.prog.events)) {
		return
	}
	if w.askAt == 0 {
		w.askAt = w.now + w.asks[0].wait
		return
	}
	q := w.asks[0]
	w.asks, w.askAt = w.asks[1:], 0
	w.ask(q)
}

// weather makes some ranks slow for a while.
func (w *world) weather() {
	for i := range w.speed {
		w.speed[i] = 0
		if w.rng.IntN(4) == 0 {
			w.speed[i] = w.rng.IntN(8)
		}
	}
}

func (w *world) everybodyLeft() bool {
	for _, r := range w.ranks {
		if !r.left {
			return false
		}
	}
	return true
}

// end checks what must hold when all ranks have passed Finalize.
func (w *world) end() {
	if !w.head.final && !w.breaks(finalizeNotHeld) {
		w.violate("all ranks are gone, and the head has not released them")
	}
	for i, got := range w.oracle.got {
		if !got {
			w.violate("event %d was never received", i)
		}
	}
	for _, r := range w.ranks {
		if r.app.acc != w.prog.acc[r.id][w.prog.rounds] {
			w.violate("rank %d ends with digest %016x", r.id, r.app.acc)
		}
	}
	w.seen.Schedules++
	w.seen.Steps += w.now - w.frozen
}

// stuck is the end of a schedule that does not end.
func (w *world) stuck() {
	text := fmt.Sprintf("no end after %d steps; job %s, attempt under way: %v, head's timers: %v", w.now, w.head.job.State(), w.head.job.Busy(), w.head.clocks)
	for _, r := range w.ranks {
		text += fmt.Sprintf("\n  rank %d: alive %v, %s, round %d, hold %+v, protocol state %v, gate closed %v, up %v",
			r.id, r.alive, r.where(), r.app.round, r.holder, r.m.State(), r.e.GateClosed(), r.up)
		if !r.e.GateClosed() {
			for _, s := range r.e.Pending() {
				text += "\n    " + s
			}
		}
		for _, t := range r.app.threads {
			if t.next < len(t.ops) {
				text += fmt.Sprintf("\n    next: %+v of %+v, found %v", t.ops[t.next], w.prog.events[t.ops[t.next].ev], t.found)
			}
		}
	}
	for i, at := range w.oracle.order {
		if at > 0 && !w.oracle.got[i] {
			text += fmt.Sprintf("\n  sent and not received: %+v", w.prog.events[i])
		}
	}
	if c := w.net.busy(-1); c != nil {
		text += fmt.Sprintf("\n  in flight: %v", c)
	}
	w.violate("%s", text)
}

// touched is called when something reaches a rank's memory: not between Ready
// and the opening of the gate.
func (w *world) touched(rank int, what string) {
	r := w.ranks[rank]
	if r.coming != there {
		w.violate("rank %d is on its way into incarnation %x, and %s", rank, r.inc, what)
	}
	if r.drv.closed && r.drv.settled && w.hopeful(r) {
		w.violate("rank %d is ready, and %s", rank, what)
	}
}

// hopeful reports whether the attempt that the rank takes part in is on its way
// to a cut. Where the head has given it up, or ended it, ranks that know and
// ranks that do not yet may differ.
func (w *world) hopeful(r *rank) bool {
	n, live := r.m.Attempt()
	return live && n == w.head.attempt
}

// checkCut looks at the whole job when one rank is captured: nothing is in
// flight, and all are ready or beyond.
func (w *world) checkCut(r *rank) {
	if !w.hopeful(r) {
		return
	}
	w.checkHolds(r)
	for _, x := range w.ranks {
		if s := x.m.State(); s < ckpt.Ready && x.alive {
			w.violate("rank %d is captured when rank %d is %v", r.id, x.id, s)
		}
	}
	if c := w.net.busy(-1); c != nil {
		w.violate("rank %d is captured with something in flight: %v", r.id, c)
	}
}

// passes makes time pass while a whole process is imaged.
func (w *world) passes() {
	if !w.plan.slowCopy {
		return
	}
	const long = 2_000_000
	w.now += long
	w.limit += long
	if !w.breaks(deadlinesRunOn) {
		w.frozen += long
	}
}

// uncount and armLater serve mutants.
func (w *world) uncount(r int, sent []uint64) {
	for peer, c := range w.net.mods[r].out {
		sent[peer] -= min(sent[peer], uint64(len(c.batch)+len(c.rest)+len(c.held)))
	}
}

func (w *world) armLater(do func()) {
	if !w.breaks(armedLater) {
		do()
		return
	}
	w.delayed = append(w.delayed, do)
}
