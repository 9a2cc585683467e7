package interval

import (
	"strings"
	"time"
)

// Measured is a level of a running job that gets copies of what the ranks write to the base.
type Measured struct {
	Name     string
	Survives Scope
	Costs    Recent // what the ranks lost to a copy
	Commits  Recent // from when a snapshot is whole at the base until it is there
}

// Job is what is known of the job, for Best and Simulate.
//
// A level without measurements is assumed to cost and to take as much as the base, and a restart to
// take as long from all levels. Failures that no level survives are counted as those that the
// strongest survives: their cost does not depend on the plan.
func (a *Auto) Job(ran time.Duration) Job {
	base := a.base()
	j := Job{Pause: max(a.Cost(), time.Microsecond), Levels: []Level{base}, Failures: Failures{MTBF: a.MTBF(ran), Share: Usual}}
	most := a.Survives
	for _, m := range a.Levels {
		l := Level{Name: m.Name, Survives: m.Survives, Cost: a.Cost(), Commit: 2 * base.Commit, Restart: base.Restart}
		if len(m.Costs) > 0 {
			l.Cost = m.Costs.Mean()
			l.Commit = base.Commit + After(m.Commits.Mean(), l.Cost)
		}
		j.Levels, most = append(j.Levels, l), max(most, m.Survives)
	}
	j.Share = j.Share.Within(most)
	return j
}

// Plan is the best set of levels now, with their intervals. The base need not be in it: if no
// failure makes it worth its cost, the ranks still write there, as often as the next level gets a
// copy.
func (a *Auto) Plan(ran time.Duration) (Plan, error) { return Best(a.Job(ran)) }

// Assumed are the levels of which nothing was measured yet.
func (a *Auto) Assumed() (names []string) {
	for _, m := range a.Levels {
		if len(m.Costs) == 0 {
			names = append(names, m.Name)
		}
	}
	return names
}

// Of is the interval of a level by name; 0: it is not worth its cost.
func (p Plan) Of(name string) time.Duration {
	for _, s := range p.Steps {
		if s.Name == name {
			return s.Every
		}
	}
	return 0
}

// Words are the intervals of all levels under a plan in one line.
func (a *Auto) Words(p Plan) string {
	used, idle := []string{a.Name + " every " + short(p.Steps[0].Every)}, []string{}
	for _, m := range a.Levels {
		if d := p.Of(m.Name); d > 0 {
			used = append(used, m.Name+" every "+short(d))
		} else {
			idle = append(idle, m.Name)
		}
	}
	words := strings.Join(used, ", ")
	if len(idle) > 0 {
		words += "; not worth while: " + strings.Join(idle, ", ")
	}
	return words
}

// short leaves three digits or so.
func short(d time.Duration) string {
	unit := time.Millisecond
	for d >= 1000*unit && unit < time.Second {
		unit *= 10
	}
	return d.Round(unit).String()
}
