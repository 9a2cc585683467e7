package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/storage/protect"
)

// plan is what a seed decides before anything runs.
type plan struct {
	np, threads, rounds int
	density             int // events a round, at most
	prologue            bool
	collective          bool
	neighbours          bool // ranks talk to their next two only
	huge                bool // some messages need several frames or segments
	teams               int  // of ranks that take steps together
	manySteps           bool
	rooted              bool // in most steps they do not all wait for all
	fault               fault

	sparse bool
	agents int

	eager  int // of the transport, bytes
	shape  shape
	moves  bool // after a restart it has another shape
	calls  bool // some messages are sent and received by calls that block
	strict bool // such a call does not look as long as nothing wakes it
	alone  bool // hardly any progress is made outside of calls
	alike  bool // many messages in a row have one length

	requests []request
	stops    bool // some requests are checkpoint-and-stop
	deaths   int  // of ranks, agents or the head
	hurry    bool // deadlines expire at any time
	failIO   bool // writes, folders and commits fail now and then
	aborts   bool // ranks give attempts up at any step
	lateInit bool // the ranks come up one by one, requests do not wait for that
	slowCopy bool // whole-process images take longer than the deadlines

	unregistered bool  // no rank can be imaged at a Point; all requests are auto
	auto         int64 // steps that an auto attempt waits for Points
	fullEvery    int
	holds        bool // ranks have sections in which no checkpoint may fall

	travels int  // times that ranks are to move
	mishaps bool // and something goes wrong with that

	machines int            // besides the head's; agents are on any of them
	troubles int            // of machines
	memory   protect.Policy // of snapshots in their memory; nil: they go to a disk
}

type request struct {
	at   float64 // share of the program's messages received, from which on it may come
	wait int64   // steps after that
	mode uint64  // oob.ModeSelf ...
	stop bool
}

// waits reports whether most receives are calls that wait for one message.
func (p *plan) waits() bool { return p.calls && p.alone }

// quiet reports whether nothing was planned that makes an attempt fail.
func (p *plan) quiet() bool {
	return p.deaths == 0 && p.troubles == 0 && !p.mishaps && !p.hurry && !p.failIO && !p.aborts && p.fault == noFault
}

func newPlan(rng *rand.Rand) *plan {
	one := func(n int) bool { return rng.IntN(n) == 0 }
	p := &plan{np: 2 + rng.IntN(7), threads: 1, rounds: 4 + rng.IntN(8)}
	switch {
	case one(40):
		p.np = 1
	case one(800):
		p.np = 60 + rng.IntN(141)
	case one(100):
		p.np = 9 + rng.IntN(12)
	}
	if one(3) {
		p.threads = 2 + rng.IntN(2)
	}
	p.density = 2 + rng.IntN(2*p.np+2)
	if p.np > 20 {
		p.rounds, p.density = 3, p.np/2
	}
	p.prologue, p.collective, p.neighbours = !one(3), one(3), one(3)
	p.sparse, p.agents = one(2), 1+rng.IntN(min(3, p.np))
	p.eager = 64 + rng.IntN(300)
	p.huge = p.np <= 4 && one(60)
	p.calls, p.strict, p.alone, p.alike, p.moves = one(2), one(2), one(3), one(4), one(2)
	if p.np > 1 && p.np <= 12 && one(3) {
		p.teams = 1 + rng.IntN(2)
		p.manySteps, p.rooted = p.np <= 5 && one(6), one(3)
	}
	p.shape = newShape(rng, p)
	p.draw(rng, one)
	return p
}

// spread puts the agents of some schedules on several machines. It has its own dice, so
// that the others are what they would be without machines.
func (p *plan) spread(rng *rand.Rand, m Mutant) {
	if rng.IntN(3) > 0 && !m.remembers() {
		return
	}
	p.machines, p.troubles = 1+rng.IntN(5), rng.IntN(5)
	p.slowCopy = false // or all leases would run out
	p.remembers(rng, m)
}

// draw plans the checkpoints and what goes wrong.
func (p *plan) draw(rng *rand.Rand, one func(int) bool) {
	p.hurry, p.failIO, p.aborts = one(6), one(6), one(8)
	n := 1 + rng.IntN(4)
	if p.hurry || p.aborts {
		n += 3 // the next attempt comes on the heels of one that failed
	}
	mode := uint64(rng.IntN(5)) // 0: all
	p.stops = one(3)
	for range n {
		q := request{at: rng.Float64() - 0.1, wait: rng.Int64N(100 * int64(p.np)), mode: mode, stop: p.stops && one(2)}
		if mode == 0 || mode > oob.ModeAuto {
			q.mode = 1 + rng.Uint64N(oob.ModeAuto)
		}
		p.requests = append(p.requests, q)
	}
	p.unregistered = mode == oob.ModeAuto && one(4)
	p.auto = 1 + rng.Int64N([]int64{300, 200_000}[rng.IntN(2)])*int64(p.np)
	p.fullEvery = rng.IntN(4)
	p.holds = p.teams == 0 && one(2) // where teams are looked at, attempts are not to be put off
	if one(3) {
		p.deaths = 1 + rng.IntN(2)
	}
	if mode != oob.ModeNative && one(6) {
		p.fault = fault(1 + rng.IntN(2))
	}
	slices.SortFunc(p.requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	p.lateInit = one(4)
	p.slowCopy = one(4)
	if p.teams > 0 && one(2) {
		p.tour(rng)
	}
}

// tour lets whole processes come back again and again, each time over another
// transport, and soon be asked for something else.
func (p *plan) tour(rng *rand.Rand) {
	p.requests, p.stops, p.moves, p.deaths, p.fault, p.unregistered = nil, true, true, 0, noFault, false
	next := []uint64{oob.ModeSelf, oob.ModeSelf, oob.ModeNative, oob.ModeAuto}
	for range 2 + rng.IntN(3) {
		at := rng.Float64() - 0.1
		p.requests = append(p.requests, request{at: at, wait: rng.Int64N(100 * int64(p.np)), mode: oob.ModeNative, stop: true},
			request{at: at, wait: rng.Int64N(40 * int64(p.np)), mode: next[rng.IntN(len(next))], stop: rng.IntN(4) == 0})
	}
	slices.SortStableFunc(p.requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
}

func (p *plan) String() string {
	return fmt.Sprintf("%+v", *p)
}
