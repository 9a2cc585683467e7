// Package interval says how often a job is best checkpointed, and into which levels. A level is a place for
// snapshots that survives some failures and not others: the memory of other nodes, a disk, an object store. It is
// pure logic: formulas, a simulation, and what a running job keeps of its own measurements (Auto).
//
// # The formula
//
// A checkpoint is captured once, which costs the ranks P, and goes to one level or several. Of each level four things
// count:
//
//	C  what one snapshot there costs the ranks beside P: the time that they lose, not the time that it takes. A running job
//	   measures it, see Meter
//	d  from when the ranks go on until the snapshot counts, less the part of C that they lose in that time
//	R  from the detection of a failure until the ranks go on
//	λ  how often failures come that need this level and nothing less
//
// With a checkpoint every W, and D until a failure is noticed, the ranks lose this share of their time:
//
//	C/W + λ (W/2 + d + R + D)
//
// So W = sqrt(2 C / λ) is best (Young's formula, with C in place of the duration). It is at least
// d, because a level takes one snapshot at a time. The shortest W is the base, and the others are
// multiples of it. Every capture goes to the base, so P is added to its C. Which levels are worth
// their cost is found by trying all sets. The formula is of first order: if failures come nearly as
// often as checkpoints, Simulate returns the real loss.
package interval

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Scope is how much a failure takes with it, and what a level survives.
type Scope int

// The scopes, each with all that is before it.
const (
	Process Scope = iota // ranks or their agent
	Node                 // one node
	Nodes                // several nodes at once
	All                  // every node: only snapshots that do not lie on nodes are left
	Scopes
)

var scopeNames = [Scopes]string{"process", "node", "nodes", "all"}

func (s Scope) String() string { return scopeNames[s] }

// ParseScope is the inverse of String.
func ParseScope(name string) (Scope, error) {
	if i := slices.Index(scopeNames[:], name); i >= 0 {
		return Scope(i), nil
	}
	return 0, fmt.Errorf("%q is no scope of failures: known are %s", name, strings.Join(scopeNames[:], ", "))
}

// Level is a place for snapshots, with what it costs.
type Level struct {
	Name     string
	Survives Scope         // the largest failure after which its snapshots are still there
	Cost     time.Duration // that a snapshot takes from the ranks, without the capture
	Commit   time.Duration // from when the ranks go on until the snapshot counts, without Cost: their loss meanwhile must not count twice, see After
	Restart  time.Duration // from the detection of a failure until the ranks go on
}

// Job is what is known of a job.
type Job struct {
	Pause  time.Duration // that a capture takes from the ranks, however many levels it goes to
	Levels []Level
	Failures
}

// Failures describes the failures of a job.
type Failures struct {
	MTBF   time.Duration // mean time between two of them
	Share  Shares
	Detect time.Duration // until one is noticed
	Shape  float64       // of the Weibull distribution of the times between them; 0: 1, which is exponential
}

// Shares is the share of failures by their scope; the sum is 1.
type Shares [Scopes]float64

// Within counts failures that are larger than most as being of that size.
func (s Shares) Within(most Scope) Shares {
	for i := most + 1; i < Scopes; i++ {
		s[most] += s[i]
		s[i] = 0
	}
	return s
}

// Usual is the default of Failures.Shares.
var Usual = Shares{Process: .35, Node: .45, Nodes: .12, All: .08}

// Plan says which levels are used, and how often.
type Plan struct {
	Steps []Step // the base first
	Pause time.Duration
	Lost  float64 // share of the time that is lost, by the formula
}

// Step is a level in a plan.
type Step struct {
	Level
	Every time.Duration // of work between two checkpoints into the level
	Times int           // so many intervals of the base
	rate  float64       // of failures that need this level, per second
}

// Check refuses impossible values.
func (f *Failures) Check() error {
	sum := 0.0
	for s, share := range f.Share {
		if !(share >= 0) {
			return fmt.Errorf("share of failures %v: %v", Scope(s), share)
		}
		sum += share
	}
	switch {
	case f.MTBF <= 0:
		return errors.New("the mean time between failures must be positive")
	case math.Abs(sum-1) > 1e-6:
		return fmt.Errorf("the shares of failures are together %v, not 1", sum)
	case f.Detect < 0, !(f.Shape >= 0):
		return errors.New("the time until a failure is noticed, and the shape, must not be negative")
	}
	return nil
}

func (l *Level) check() error {
	switch {
	case l.Survives < 0 || l.Survives >= Scopes:
		return fmt.Errorf("level %s: no such scope", l.Name)
	case l.Cost < 0, l.Commit < 0, l.Restart < 0:
		return fmt.Errorf("level %s: a time is negative", l.Name)
	}
	return nil
}

// mostLevels bounds the number of sets that are tried.
const mostLevels = 12

// Best finds the set of levels and the intervals that lose least.
func Best(j Job) (Plan, error) {
	if err := j.check(); err != nil {
		return Plan{}, err
	}
	best := Plan{Lost: math.Inf(1)}
	for set := 1; set < 1<<len(j.Levels); set++ {
		var chosen []Level
		for i, l := range j.Levels {
			if set&(1<<i) != 0 {
				chosen = append(chosen, l)
			}
		}
		if p, ok := j.plan(chosen); ok && p.Lost < best.Lost {
			best = p
		}
	}
	if best.Steps == nil {
		return best, fmt.Errorf("no level survives failures of scope %q, and some are expected", j.largest())
	}
	return best, nil
}

func (j *Job) check() error {
	switch {
	case len(j.Levels) == 0 || len(j.Levels) > mostLevels:
		return fmt.Errorf("%d levels: 1 to %d", len(j.Levels), mostLevels)
	case j.Pause < 0:
		return errors.New("the pause of a capture must not be negative")
	}
	names := map[string]bool{}
	for i := range j.Levels {
		l := &j.Levels[i]
		switch err := l.check(); {
		case err != nil:
			return err
		case l.Cost+j.Pause == 0:
			return fmt.Errorf("level %s: a checkpoint that costs nothing could be taken all the time", l.Name)
		case names[l.Name]:
			return fmt.Errorf("two levels are called %s", l.Name)
		}
		names[l.Name] = true
	}
	return j.Failures.Check()
}

// largest is the largest scope that occurs.
func (f *Failures) largest() Scope {
	for s := Scopes - 1; s > 0; s-- {
		if f.Share[s] > 0 {
			return s
		}
	}
	return 0
}

// plan uses all of the levels. It reports false if they do not suffice, or one of them is useless.
func (j *Job) plan(levels []Level) (Plan, bool) {
	levels = slices.SortedStableFunc(slices.Values(levels), func(a, b Level) int { return cmp.Compare(a.Survives, b.Survives) })
	var steps []Step
	from := Process
	for i, l := range levels {
		if i > 0 && l.Survives == levels[i-1].Survives {
			return Plan{}, false // one of the two would never be read
		}
		share := 0.0
		for ; from <= l.Survives; from++ {
			share += j.Share[from]
		}
		if share == 0 {
			return Plan{}, false
		}
		s := Step{Level: l, rate: share / j.MTBF.Seconds()}
		s.Every = s.best(0)
		steps = append(steps, s)
	}
	if j.largest() >= from {
		return Plan{}, false
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.Every, b.Every) })
	base := &steps[0]
	base.Every = base.best(j.Pause)
	p := Plan{Steps: steps, Pause: j.Pause, Lost: j.Pause.Seconds() / base.Every.Seconds()}
	for i := range steps {
		s := &steps[i]
		s.Times = max(1, int(math.Round(float64(s.Every)/float64(base.Every))), int(math.Ceil(float64(s.Commit)/float64(base.Every))))
		s.Every = time.Duration(s.Times) * base.Every
		p.Lost += s.lost(j.Detect)
	}
	return p, true
}

// best is the best interval of a level that pays for captures, too.
func (s *Step) best(pause time.Duration) time.Duration {
	return Young(s.Cost+pause, s.Commit, seconds(1/s.rate))
}

// Young is the best interval between checkpoints with this cost and commit time, at this mean time
// between failures.
func Young(cost, commit, mtbf time.Duration) time.Duration {
	w := math.Sqrt(2 * cost.Seconds() * mtbf.Seconds())
	return max(seconds(w), commit, time.Microsecond)
}

// lost is the share of time that a level costs.
func (s *Step) lost(detect time.Duration) float64 {
	w := s.Every.Seconds()
	return s.Cost.Seconds()/w + s.rate*(w/2+(s.Commit+s.Restart+detect).Seconds())
}

// seconds makes a duration of seconds, the longest if there is none so long.
func seconds(s float64) time.Duration {
	if s >= math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(s * 1e9)
}

// Scaled is the plan with all intervals times a factor, but none shorter than its level can follow.
func (p Plan) Scaled(factor float64) Plan {
	base := p.Steps[0].Every.Seconds() * factor
	for _, s := range p.Steps {
		base = max(base, s.Commit.Seconds()/float64(s.Times))
	}
	q := Plan{Steps: slices.Clone(p.Steps), Pause: p.Pause, Lost: math.NaN()}
	for i := range q.Steps {
		q.Steps[i].Every = seconds(base * float64(q.Steps[i].Times))
	}
	return q
}
