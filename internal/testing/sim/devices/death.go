package devices

import (
	"fmt"
	"strings"

	"github.com/gorun-mpi/gorun/internal/offload"
	"github.com/gorun-mpi/gorun/internal/offload/phase"
)

// The states of the protocol in which somebody may die.
var stateNames = [...]string{"creation", "running", "pause", "paused", "capture", "wait", "resume", "restore", "swap-out", "swapped out", "swap-in", "migrate", "destruction"}

const (
	creation = iota
	running
	pause
	paused
	capture_
	wait
	resume
	restore
	swapOut
	out
	swapIn
	migrate
	destruction
	states
)

// Who may die.
var victimNames = [...]string{"rank", "offload process", "agent"}

const (
	aRank = iota
	aProcess
	anAgent
	victims
)

// Seen counts what schedules have come across.
type Seen struct {
	Schedules, Steps, Commits, Restarts, Reverted, Lost, Swapped, Named, Hung, Mixed, Refused int
	Deaths                                                                                    [victims][states]int
}

// Add adds up.
func (s *Seen) Add(o Seen) {
	a, b := s.counts(), o.counts()
	for i := range a {
		*a[i] += *b[i]
	}
	for v := range o.Deaths {
		for st, n := range o.Deaths[v] {
			s.Deaths[v][st] += n
		}
	}
}

var countNames = [...]string{"schedules", "steps", "snapshots", "restarts", "reverted attempts", "lost devices", "swaps", "names of what is waited for", "kernels that never end",
	"restarts of mixed pieces", "refusals of those"}

func (s *Seen) counts() []*int {
	return []*int{&s.Schedules, &s.Steps, &s.Commits, &s.Restarts, &s.Reverted, &s.Lost, &s.Swapped, &s.Named, &s.Hung, &s.Mixed, &s.Refused}
}

// Lacks names what was never seen.
func (s *Seen) Lacks() (names []string) {
	for i, n := range s.counts() {
		if *n == 0 {
			names = append(names, countNames[i])
		}
	}
	for v := range s.Deaths {
		for st, n := range s.Deaths[v] {
			if n == 0 && !(v == aProcess && st == out) {
				names = append(names, fmt.Sprintf("death of %s in %s", victimNames[v], stateNames[st]))
			}
		}
	}
	return names
}

func (s *Seen) String() string {
	var b strings.Builder
	for i, n := range s.counts() {
		fmt.Fprintf(&b, "%d %s, ", *n, countNames[i])
	}
	for v := range s.Deaths {
		fmt.Fprintf(&b, "\n%s dies in", victimNames[v])
		for st, n := range s.Deaths[v] {
			fmt.Fprintf(&b, " %s %d", stateNames[st], n)
		}
	}
	return b.String()
}

// state is where a process stands in the protocol.
func (o *offloader) state() int {
	p := o.cmd
	switch {
	case o.user != nil && o.user.op == offload.SwapMove:
		return migrate
	case o.user != nil && o.user.op == offload.SwapOut:
		return swapOut
	case o.user != nil:
		return swapIn
	case p == nil:
		return out
	case o.ending:
		return destruction
	}
	for _, m := range p.orders.queue {
		if op := m.(order).Op; op == offload.OrderResume || op == offload.OrderRevert {
			return resume
		}
	}
	switch p.m.State() {
	case phase.Starting:
		if o.bringing || p.from != nil {
			return restore
		}
		return creation
	case phase.Pausing:
		return pause
	case phase.Paused:
		return paused
	case phase.Capturing:
		return capture_
	case phase.Captured:
		return wait
	case phase.Restoring:
		return restore
	}
	return running
}

// rare is how much sooner a death comes in states that are short.
func (o *offloader) rare() int {
	switch o.state() {
	case running, pause, paused, creation:
		return 1
	}
	return 6
}

func (s *station) rare() (n int) {
	for _, o := range s.procs {
		if o.cmd != nil || s.m.Has(o.id) {
			n = max(n, o.rare())
		}
	}
	return max(n, 1)
}

// dies counts a death by the states of all processes that it concerns.
func (w *world) dies(victim int, stations ...*station) {
	w.deaths--
	w.causes++
	for _, s := range stations {
		for _, o := range s.procs {
			if o.cmd != nil || s.m.Has(o.id) {
				w.seen.Deaths[victim][o.state()]++
			}
		}
	}
}

// mishaps are the deaths that may come now.
func (w *world) mishaps(add func(int, func())) {
	if w.deaths == 0 || w.rng.IntN(12) > 0 {
		return
	}
	for _, p := range w.procs {
		add(4*p.o.rare(), func() {
			w.deaths--
			w.causes++
			w.seen.Deaths[aProcess][p.o.state()]++
			p.die("killed")
		})
	}
	for _, r := range w.ranks {
		if r.alive {
			add(r.s.rare(), func() {
				w.dies(aRank, r.s)
				r.exit("it is killed")
			})
		}
	}
	for _, a := range w.agents {
		if a.alive {
			add(a.stations[0].rare(), func() {
				w.dies(anAgent, a.stations...)
				a.die()
			})
		}
	}
}
