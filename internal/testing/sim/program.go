package sim

import (
	"encoding/binary"
	"math/rand/v2"
)

// A program is what the simulated ranks run: rounds of messages with a Point
// before each. It is made from the seed alone, and so is its result, without
// running it: what a rank sends in a round depends on all it received in
// earlier ones (its acc), so a message lost, doubled or given to the wrong round
// shows in the final digests.
//
// Programs are free of deadlock by construction: events are numbered, every
// goroutine performs its operations in this order, sends of which the match is
// not determined never block, and only one goroutine of a rank receives in a
// context whose receives are interchangeable.
type program struct {
	np, threads, rounds int
	events              []event
	// ops lists by rank, round+1 (0 is the prologue) and goroutine.
	ops   [][][][]op
	teams []team
	steps []step
	acc   [][]uint64 // by rank and round: what it must be when the round begins; last: the result
}

// family says which receives a message is for.
type family uint8

const (
	famExact  family = iota // source and tag given; the tag names both goroutines
	famSource               // any source
	famTag                  // any tag
	famAny                  // both
	famMixed                // receives from given sources posted first, then from any
	families
)

type event struct {
	id       int
	src, dst int
	sround   int // -1: prologue
	rround   int
	ctx      uint64
	tag      int32
	size     int
	fam      family
	sync     bool
}

// style is how an operation is called.
type style uint8

const (
	blocking  style = iota // started, then tested until it is done
	deferred               // started, tested at the end of the round
	probed                 // receives: found by a probe, then received
	mprobed                // receives: taken by a matched probe
	leftOver               // receives: pending beyond the next Point: a program in error
	lateSends              // sends: completed only when the other side is in its next round
)

type op struct {
	ev    int
	step  int // one more than its number; 0: an event
	send  bool
	style style
	src   int // receives: as asked for
	tag   int32
}

const wild = -1 // AnySource, AnyTag

// fault is a mistake of a program that the protocol must survive.
type fault uint8

const (
	noFault       fault = iota
	pendingRecv         // a receive is pending at a Point
	announcedSend       // a send that needs its receive is waited for before a Point, and received after it
)

func newProgram(rng *rand.Rand, p *plan) *program {
	g := &program{np: p.np, threads: p.threads, rounds: p.rounds}
	g.ops = make([][][][]op, g.np)
	for r := range g.ops {
		g.ops[r] = make([][][]op, g.rounds+1)
		for k := range g.ops[r] {
			g.ops[r][k] = make([][]op, g.threads)
		}
	}
	if p.prologue {
		g.ring()
	}
	g.makeTeams(rng, p)
	var late []int // events to be received in a later round
	for k := range g.rounds {
		late = g.round(rng, p, k, late)
	}
	g.mistake(rng, p)
	g.result()
	return g
}

func (g *program) add(r, k, t int, o op) {
	g.ops[r][k+1][t] = append(g.ops[r][k+1][t], o)
}

// ring is the prologue: what a program does before its first Point, at every
// start.
func (g *program) ring() {
	if g.np < 2 {
		return
	}
	for r := range g.np {
		to := (r + 1) % g.np
		e := event{id: len(g.events), src: r, dst: to, sround: -1, rround: -1, ctx: 2, tag: 9, size: 24}
		g.events = append(g.events, e)
		g.add(r, -1, 0, op{ev: e.id, send: true, style: deferred})
		g.add(to, -1, 0, op{ev: e.id, src: r, tag: 9})
	}
}

func (g *program) round(rng *rand.Rand, p *plan, k int, late []int) []int {
	var still []int
	for _, id := range late {
		if e := &g.events[id]; e.rround == k {
			g.receive(rng, p, e)
		} else {
			still = append(still, id)
		}
	}
	first := len(g.events)
	if p.collective && rng.IntN(2) == 0 {
		g.dissemination(rng, p, k)
	}
	g.together(rng, p, k)
	for i := range 1 + rng.IntN(p.density) {
		if i%4 == 1 {
			g.together(rng, p, k)
		}
		if p.alike && g.np > 1 && rng.IntN(2) == 0 {
			g.burst(rng, p, k)
			continue
		}
		e := g.event(rng, p, k)
		g.events = append(g.events, e)
		g.sendOf(rng, &g.events[e.id])
		if e.rround == k {
			if e.fam != famMixed {
				g.receive(rng, p, &g.events[e.id])
			}
		} else {
			still = append(still, e.id)
		}
	}
	g.mixed(k, first)
	return still
}

// burst is several messages of one envelope and most often of one length.
func (g *program) burst(rng *rand.Rand, p *plan, k int) {
	t := rng.IntN(g.threads)
	e := event{src: rng.IntN(g.np), sround: k, rround: k, ctx: context(famExact, k), tag: int32(t*8 + rng.IntN(g.threads)), size: 8 << rng.IntN(2)}
	e.dst = (e.src + 1 + rng.IntN(g.np-1)) % g.np
	posted := style(rng.IntN(3)) // most often all receives are posted early
	size := e.size
	for range 2 + rng.IntN(10) {
		e.id = len(g.events)
		if e.size = size; rng.IntN(8) == 0 {
			e.size = 100 // which is not alike
		}
		g.events = append(g.events, e)
		g.add(e.src, k, g.sender(rng, &e), op{ev: e.id, send: true, style: deferred})
		o := op{ev: e.id, src: e.src, tag: e.tag}
		if posted != blocking {
			o.style = deferred
		}
		g.add(e.dst, k, g.receiver(&e), o)
	}
}

func (g *program) event(rng *rand.Rand, p *plan, k int) event {
	e := event{id: len(g.events), src: rng.IntN(g.np), sround: k, rround: k, fam: family(rng.IntN(int(families)))}
	if p.neighbours {
		e.dst = (e.src + 1 + rng.IntN(2)) % g.np
	} else {
		e.dst = rng.IntN(g.np)
	}
	switch rng.IntN(10) {
	case 0:
		e.size = p.eager + 1 + rng.IntN(400) // announced
	case 1:
		e.size = p.eager
	case 2, 3:
		e.size = 8 + rng.IntN(200)
	default:
		e.size = 8 + rng.IntN(24)
	}
	if p.huge && rng.IntN(20) == 0 {
		e.size = 300_000 + rng.IntN(900_000)
	}
	if p.waits() && rng.IntN(4) > 0 {
		e.fam, e.size = famExact, 8+rng.IntN(150)
	}
	e.sync = rng.IntN(6) == 0
	if e.src == e.dst {
		e.fam, e.sync, e.size = famExact, false, min(e.size, 1000)
	}
	if e.fam == famExact && rng.IntN(8) == 0 {
		e.size = rng.IntN(8)
	}
	if rng.IntN(4) == 0 && k+1 < g.rounds && e.fam != famMixed {
		// Received after a later Point: must not need its receive.
		e.rround, e.sync, e.size = min(k+1+rng.IntN(2), g.rounds-1), false, min(e.size, p.eager)
	}
	e.ctx = context(e.fam, e.rround)
	e.tag = int32(rng.IntN(3))
	if e.fam == famExact {
		e.tag = int32(rng.IntN(g.threads)*8 + rng.IntN(g.threads))
	}
	return e
}

func context(f family, round int) uint64 { return uint64(f+2)<<32 | uint64(round+1)<<1 }

// sender and receiver are the goroutines that perform an event.
func (g *program) sender(rng *rand.Rand, e *event) int {
	if e.fam == famExact {
		return int(e.tag / 8)
	}
	return rng.IntN(g.threads)
}

func (g *program) receiver(e *event) int {
	if e.fam == famExact {
		return int(e.tag % 8)
	}
	return (e.dst + int(e.fam)) % g.threads
}

func (g *program) sendOf(rng *rand.Rand, e *event) {
	s := deferred
	if e.fam == famExact && e.src != e.dst && rng.IntN(2) == 0 {
		s = blocking
	}
	g.add(e.src, e.sround, g.sender(rng, e), op{ev: e.id, send: true, style: s})
}

func (g *program) receive(rng *rand.Rand, p *plan, e *event) {
	o := op{ev: e.id, src: e.src, tag: e.tag}
	if e.fam == famSource || e.fam == famAny {
		o.src = wild
	}
	if e.fam == famTag || e.fam == famAny {
		o.tag = wild
	}
	n := 6
	if p.calls {
		n = 12
	}
	if p.waits() {
		n = 40
	}
	switch rng.IntN(n) {
	case 0:
		o.style = probed
	case 1:
		o.style = mprobed
	case 2, 3:
		o.style = deferred
	}
	g.add(e.dst, e.rround, g.receiver(e), o)
}

// mixed posts the receives of famMixed, those from given sources first, before
// anything else in the round: a wildcard that came earlier could take what
// another receive waits for.
func (g *program) mixed(k, first int) {
	for pass := range 2 {
		for i := len(g.events) - 1; i >= first; i-- {
			e := &g.events[i]
			if e.fam != famMixed || (i%2 == 0) == (pass == 0) {
				continue
			}
			o := op{ev: e.id, src: e.src, tag: wild, style: deferred}
			if pass == 0 {
				o.src = wild
			}
			l := &g.ops[e.dst][k+1][g.receiver(e)]
			*l = append([]op{o}, *l...)
		}
	}
}

// dissemination is a barrier: in step i every rank sends to rank + 2^i.
func (g *program) dissemination(rng *rand.Rand, p *plan, k int) {
	for d := 1; d < g.np; d *= 2 {
		for r := range g.np {
			e := event{id: len(g.events), src: r, dst: (r + d) % g.np, sround: k, rround: k, size: 8, ctx: context(famExact, k)}
			g.events = append(g.events, e)
			g.add(r, k, 0, op{ev: e.id, send: true, style: deferred})
		}
		for r := range g.np {
			from := (r - d + g.np) % g.np
			e := &g.events[len(g.events)-g.np+from]
			g.add(r, k, 0, op{ev: e.id, src: from, tag: e.tag})
		}
	}
}

// mistake makes a program with an error at its Points: it runs, but an attempt
// that wants to stop it there has to fail.
func (g *program) mistake(rng *rand.Rand, p *plan) {
	if p.fault == noFault || g.rounds < 3 || g.np < 2 {
		return
	}
	k := rng.IntN(g.rounds - 1)
	e := event{id: len(g.events), src: rng.IntN(g.np), tag: 63, sround: k + 1, rround: k + 1, size: 40}
	e.dst = (e.src + 1 + rng.IntN(g.np-1)) % g.np
	e.ctx = context(families, k)
	if p.fault == pendingRecv {
		// Posted in round k, sent in round k+1.
		g.events = append(g.events, e)
		g.add(e.dst, k, 0, op{ev: e.id, src: e.src, tag: e.tag, style: leftOver})
		g.add(e.src, k+1, 0, op{ev: e.id, send: true, style: deferred})
		return
	}
	// Announced in round k and waited for there, received in round k+1 before
	// anything else.
	e.sround, e.size = k, p.eager+50
	g.events = append(g.events, e)
	g.add(e.src, k, 0, op{ev: e.id, send: true, style: lateSends})
	l := &g.ops[e.dst][k+2][0]
	*l = append([]op{{ev: e.id, src: e.src, tag: e.tag, style: deferred}}, *l...)
}

// result computes acc.
func (g *program) result() {
	g.acc = make([][]uint64, g.np)
	for r := range g.acc {
		g.acc[r] = make([]uint64, g.rounds+1)
		g.acc[r][0] = mix(uint64(r) + 1)
	}
	arriving := make([][]int, g.rounds)
	for i := range g.events {
		if e := &g.events[i]; e.rround >= 0 {
			arriving[e.rround] = append(arriving[e.rround], i)
		}
	}
	steps := make([][]step, g.rounds)
	for i := range g.steps {
		s := g.steps[i]
		steps[s.round] = append(steps[s.round], s)
	}
	for k := range g.rounds {
		for r := range g.np {
			g.acc[r][k+1] = nextRound(g.acc[r][k])
		}
		for _, i := range arriving[k] {
			e := &g.events[i]
			g.acc[e.dst][k+1] += g.digest(e)
		}
		for i := range steps[k] {
			s := &steps[k][i]
			for place, r := range g.teams[s.team].members {
				g.acc[r][k+1] += g.gain(s, place)
			}
		}
	}
}

func nextRound(acc uint64) uint64 { return mix(acc) }

// salt is what the content of a message depends on beside its event.
func (g *program) salt(e *event) uint64 {
	if e.sround < 0 {
		return 0
	}
	return g.acc[e.src][e.sround]
}

// digest is what a message adds to its receiver's acc.
func (g *program) digest(e *event) uint64 { return mix(uint64(e.id)<<20 ^ g.salt(e)) }

// content fills p with the message of an event. Its first eight bytes name the
// event, if there are so many.
func content(p []byte, id int, salt uint64) {
	x := mix(uint64(id)<<20 ^ salt)
	n := 0
	if len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, uint64(id)<<32|uint64(uint32(x)))
		n = 8
	}
	for ; n+8 <= len(p); n += 8 {
		x = x*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(p[n:], x)
	}
	for ; n < len(p); n++ {
		p[n] = byte(x >> (n % 8 * 8))
	}
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
