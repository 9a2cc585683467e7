package interval

import (
	"math"
	"math/rand/v2"
)

// Outcome is the result of a simulated job, as shares of its time. Their sum is 1.
type Outcome struct {
	Efficiency  float64 // work that was kept
	Checkpoints float64 // time that the ranks lost to checkpoints
	Again       float64 // work that was lost and had to be done again
	Restarts    float64 // noticing failures, fetching images, starting ranks
}

// Simulate runs a job under a plan until it has failed so many times. The same seed gives the same result.
//
// The job computes and captures whenever an interval of work is done. A capture goes to every level whose turn
// it is, counted from the last restart; the ranks lose the costs of all these. Then they go on. The capture counts at a level
// when that level's time to commit is over, if nothing has failed since. A failure takes the snapshots of all levels that do not survive it; the newest of the
// others is restarted from. Failures also come while a restart is under way, which then begins again. After a
// restart, levels that have lost their snapshots get this one.
func Simulate(p Plan, f Failures, failures int, seed uint64) Outcome {
	s := sim{p: p, f: f, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), at: make([]state, len(p.Steps)), base: p.Steps[0].Every.Seconds()}
	s.shape = f.Shape
	if s.shape == 0 {
		s.shape = 1
	}
	s.scale = f.MTBF.Seconds() / math.Gamma(1+1/s.shape)
	for range failures {
		left := s.gap()
		left = s.restart(left)
		s.compute(left)
		s.fail()
	}
	all := s.kept() + s.checkpoints + s.again + s.restarts
	return Outcome{s.kept() / all, s.checkpoints / all, s.again / all, s.restarts / all}
}

// sim is a simulated job. Times are in seconds, positions in intervals of the base.
type sim struct {
	p            Plan
	f            Failures
	rng          *rand.Rand
	shape, scale float64
	base         float64
	at           []state // of the levels, by step
	pos          int     // captures so far, without those undone by failures
	from         int     // pos at the last restart
	done         float64 // work since the last capture
	down         float64 // seconds until the ranks go on

	checkpoints, again, restarts float64 // lost so far
}

// state is the state of a level.
type state struct {
	whole int     // position of its newest snapshot
	next  int     // that is being written
	ready float64 // seconds until it counts; 0: none is being written
}

func (s *sim) kept() float64 { return float64(s.pos)*s.base + s.done }

// gap is the time to the next failure.
func (s *sim) gap() float64 { return s.scale * math.Pow(s.rng.ExpFloat64(), 1/s.shape) }

// restart lets the ranks come up, if there is time until the next failure. It returns the rest of
// that time.
func (s *sim) restart(left float64) float64 {
	t := min(left, s.down)
	s.restarts += t
	s.down -= t
	return left - t
}

// compute works until the next failure.
func (s *sim) compute(left float64) {
	for left > 0 && s.down == 0 {
		if work := s.base - s.done; work > left {
			s.done += left
			s.pass(left)
			return
		} else {
			s.pass(work)
			left -= work
		}
		s.pos++
		s.done = 0
		cost := s.capture()
		t := min(cost, left)
		s.checkpoints += t
		left -= t
	}
}

// capture begins snapshots at all levels whose turn it is. It returns what that costs.
func (s *sim) capture() (cost float64) {
	cost = s.p.Pause.Seconds()
	for i := range s.at {
		step, l := &s.p.Steps[i], &s.at[i]
		if (s.pos-s.from)%step.Times != 0 || l.ready > 0 {
			continue
		}
		cost += step.Cost.Seconds()
		l.next, l.ready = s.pos, max(step.Commit.Seconds(), 1e-9)
	}
	return cost
}

// pass lets snapshots become whole.
func (s *sim) pass(t float64) {
	for i := range s.at {
		l := &s.at[i]
		if l.ready == 0 {
			continue
		}
		if l.ready -= t; l.ready <= 0 {
			l.whole, l.ready = l.next, 0
		}
	}
}

// fail takes a failure: the job goes back.
func (s *sim) fail() {
	scope, x := Process, s.rng.Float64()
	for ; scope < Scopes-1 && x >= s.f.Share[scope]; scope++ {
		x -= s.f.Share[scope]
	}
	best := -1
	for i := range s.at {
		if s.p.Steps[i].Survives < scope {
			continue
		}
		if best < 0 || s.at[i].whole > s.at[best].whole || s.at[i].whole == s.at[best].whole && s.p.Steps[i].Restart < s.p.Steps[best].Restart {
			best = i
		}
	}
	kept := s.kept()
	s.pos, s.done, s.down = 0, 0, s.f.Detect.Seconds()
	if best >= 0 {
		s.pos = s.at[best].whole
		s.down += s.p.Steps[best].Restart.Seconds()
	}
	s.from = s.pos
	s.again += kept - s.kept()
	for i := range s.at {
		l := &s.at[i]
		l.ready = 0
		if s.p.Steps[i].Survives < scope {
			l.whole = s.pos
		}
	}
}
