// Package devices simulates jobs with devices: ranks whose programs use arrays, agents, offload processes, a head that takes
// checkpoints and restarts, and users who swap devices out, in, and move them. The machines are the shipped ones, of
// internal/offload/sessions (the agent's) and internal/offload/phase (the process's); around them are drivers that do what internal/job/agent and
// cmd/gorun-device do, over queues in which everything may be late.
//
// A seed decides all: what the program does, who comes next, who dies when. Ranks, offload processes and agents die in every state
// of the protocol, which Seen counts. The oracle knows what each array has to hold, and looks when the program fetches it and whenever a
// snapshot is complete. The rules are those of the two machines; each has a mutant.
package devices

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
)

// Options of one run.
type Options struct {
	Seed   uint64
	Mutant Mutant
	Log    io.Writer // the transcript; nil: none
}

// most is how many steps a schedule may take. One that takes more goes round in circles.
const most = 20_000

// world is one run.
type world struct {
	plan
	rng    *rand.Rand
	seed   uint64
	mutant Mutant
	log    io.Writer
	seen   Seen
	wrong  error
	now    int

	next     int // number of the newest process
	life     int
	causes   int  // for the end of a life: deaths, and captures of another snapshot
	up       bool // all ranks of this life are there
	head     *head
	agents   []*agent
	ranks    []*rank
	pipes    []*pipe
	procs    []*process // that live
	snapshot []*piece   // the newest, by rank; nil: none
	older    []*piece   // the one before
	mixed    bool       // this life was begun from pieces that do not belong together
}

// plan is what a seed decides before anything runs.
type plan struct {
	np, perAgent, ops          int
	attempts, deadlines, users int
	deaths, hangs, mixes       int
	shares                     bool // ranks are restored with all devices swapped out
	goesOn                     bool // a program that has lost a device opens another one
	misuses                    bool // it gives orders that do not fit
	slow                       int  // how seldom programs move, so that the protocol is ahead of them
}

func newPlan(r *rand.Rand) plan {
	p := plan{np: 1 + r.IntN(3), perAgent: 1 + r.IntN(2), ops: 8 + r.IntN(25), attempts: 1 + r.IntN(4), users: r.IntN(4), slow: 1 + r.IntN(6)}
	if r.IntN(3) == 0 {
		p.users, p.slow = 10, 1
	}
	if r.IntN(3) > 0 {
		p.deaths = r.IntN(6)
	}
	if r.IntN(3) == 0 {
		p.deadlines = 1 + r.IntN(2)
	}
	if r.IntN(6) == 0 {
		p.hangs = 1
	}
	if p.deaths > 0 && r.IntN(2) == 0 {
		p.mixes = 1
	}
	p.goesOn, p.misuses, p.shares = r.IntN(2) == 0, r.IntN(3) == 0, r.IntN(3) == 0
	return p
}

// Run runs one seed. The error says which rule was broken.
func Run(o Options) (Seen, error) {
	rng := rand.New(rand.NewPCG(o.Seed, 18))
	w := &world{plan: newPlan(rng), rng: rng, seed: o.Seed, mutant: o.Mutant, log: o.Log}
	w.say("plan %+v", w.plan)
	w.begin()
	for w.wrong == nil && !w.over() {
		if w.now++; w.now > most {
			w.fault("no end after %d steps", most)
			break
		}
		w.step()
	}
	w.seen.Schedules, w.seen.Steps = 1, w.now
	if w.wrong != nil {
		return w.seen, fmt.Errorf("seed %d, step %d: %w", o.Seed, w.now, w.wrong)
	}
	return w.seen, nil
}

func (w *world) breaks(m Mutant) bool { return w.mutant == m }

func (w *world) fault(format string, args ...any) {
	if w.wrong == nil {
		w.wrong = fmt.Errorf(format, args...)
		w.say("BROKEN: %v", w.wrong)
	}
}

func (w *world) say(format string, args ...any) {
	if w.log != nil {
		fmt.Fprintf(w.log, "%5d %s\n", w.now, fmt.Sprintf(format, args...))
	}
}

// choice is something that may happen next.
type choice struct {
	weight int
	do     func()
}

// step lets one thing happen.
func (w *world) step() {
	var all []choice
	add := func(weight int, do func()) { all = append(all, choice{weight, do}) }
	for _, p := range w.pipes {
		if len(p.queue) > 0 {
			add(12, p.next)
		}
	}
	for _, p := range w.procs {
		p.choices(add)
	}
	for _, a := range w.agents {
		a.choices(add)
	}
	for _, r := range w.ranks {
		r.choices(add)
	}
	w.head.choices(add)
	if len(all) == 0 {
		w.stuck()
		return
	}
	w.mishaps(add)
	total := 0
	for _, c := range all {
		total += c.weight
	}
	at := w.rng.IntN(total)
	for _, c := range all {
		if at -= c.weight; at < 0 {
			c.do()
			return
		}
	}
}

// stuck is called when nothing can happen. A kernel that never ends is killed then by a user, who knows its name by now.
func (w *world) stuck() {
	for _, p := range w.procs {
		if !p.hangs {
			continue
		}
		if p.o.late != nil {
			w.fault("%v has a kernel that never ends, and nobody says so", p)
		}
		w.seen.Hung++
		w.causes++
		p.die("killed for its kernel")
		return
	}
	w.fault("%v", w.standing())
}

// standing says who waits for what.
func (w *world) standing() error {
	err := errors.New("all stand for ever")
	for _, r := range w.ranks {
		err = fmt.Errorf("%w; rank %d at %d of %d waits in %v", err, r.n, r.mem.pc, w.ops, r.mem.doing)
	}
	for _, p := range w.procs {
		err = fmt.Errorf("%w; %v is %v", err, p, p.m.State())
	}
	return err
}

// over reports whether the job has ended well.
func (w *world) over() bool {
	for _, r := range w.ranks {
		if !r.alive || r.mem.doing != nil || r.mem.pc < w.ops || len(r.mem.rings) > 0 {
			return false
		}
	}
	if !w.up || w.head.phase != idle {
		return false
	}
	for _, p := range w.procs {
		if !p.o.due {
			w.fault("the job is over, and %v lives", p)
		}
	}
	return true
}

// begin begins a life, from the newest snapshot if there is one.
func (w *world) begin() {
	w.life++
	w.up, w.pipes, w.procs, w.agents, w.ranks, w.mixed = false, nil, nil, nil, nil, false
	w.head = &head{w: w, missing: make([]bool, w.np), pieces: make([]*piece, w.np)}
	pieces := w.pieces()
	for n := range w.np {
		if n%w.perAgent == 0 {
			w.agents = append(w.agents, newAgent(w, len(w.agents)))
		}
		a := w.agents[len(w.agents)-1]
		r := &rank{w: w, n: n, alive: true, stands: pieces != nil, mem: newMemory()}
		w.ranks = append(w.ranks, r)
		r.s = newStation(a, r)
		a.stations = append(a.stations, r.s)
		w.head.missing[n] = pieces != nil
		if pieces != nil {
			r.s.bring(pieces[n])
		}
	}
	w.up = pieces == nil
	w.say("life %d, restored %v", w.life, pieces != nil)
	if pieces != nil {
		w.seen.Restarts++
		for _, a := range w.agents {
			a.brought()
		}
	}
}

// pieces are what a life begins with. A user may put in one of another snapshot, whose ring stands elsewhere: that has to be refused.
func (w *world) pieces() []*piece {
	if w.snapshot == nil || w.older == nil || w.mixes == 0 {
		return w.snapshot
	}
	for n, p := range w.snapshot {
		if m := p.mix(w.older[n]); m != nil {
			w.mixes--
			w.causes++
			w.mixed = true
			mixed := append([]*piece(nil), w.snapshot...)
			mixed[n] = m
			w.say("rank %d gets captures of another snapshot", n)
			return mixed
		}
	}
	return w.snapshot
}

// end ends a life: whatever of it is left is ended by agents and kernel.
func (w *world) end(why string) {
	w.say("life %d ends: %s", w.life, why)
	if w.life > w.causes {
		w.fault("a life ends, and nobody has died: %s", why)
	}
	if w.mixed {
		w.seen.Mixed++
	}
	w.begin()
}

// pipe is a stream: in order, at any time.
type pipe struct {
	w     *world
	name  string
	queue []any
	to    func(any)
}

func (w *world) pipe(name string, to func(any)) *pipe {
	p := &pipe{w: w, name: name, to: to}
	w.pipes = append(w.pipes, p)
	return p
}

func (p *pipe) send(m any) { p.queue = append(p.queue, m) }

func (p *pipe) next() {
	m := p.queue[0]
	p.queue = p.queue[1:]
	p.w.say("%s: %v", p.name, m)
	p.to(m)
}

// drop ends a stream.
func (w *world) drop(p *pipe) {
	for i, q := range w.pipes {
		if q == p {
			w.pipes = append(w.pipes[:i:i], w.pipes[i+1:]...)
			return
		}
	}
}

// eof is the end of a stream.
type eof struct{ why string }
