package interval

import (
	"slices"
	"time"
)

// Auto chooses the interval of a running job, or one for each of its levels, by the job's own
// measurements. The choice changes with every checkpoint and every failure.
//
// Until a checkpoint was measured a cost is assumed. If the user has not given the mean time
// between failures, it is estimated as the job's age divided by its failures + 1/2. So a young job
// is checkpointed often, and one that has run well for long ever less. In all, that costs a job of
// a day with checkpoints of 50 ms a minute.
type Auto struct {
	Given    time.Duration // mean time between failures, by the user; 0: measured
	Failures int           // so far
	Costs    Recent        // what the ranks lost to a checkpoint
	Pauses   Recent        // of that, for how long they stood
	Commits  Recent        // from when the ranks went on to the commit
	Restarts Recent        // from a failure to all ranks up

	Name     string     // of the level that the ranks write, if there are others
	Survives Scope      // of that level
	Levels   []Measured // the others, see Plan; none: there is one level
}

// AssumedCost is the assumed cost of a checkpoint until one was measured.
const AssumedCost = 100 * time.Millisecond

// shortest is the shortest interval: a checkpoint that seems to cost nothing was not measured well.
const shortest = 20 * time.Millisecond

// MTBF is the mean time between failures of a job that has run for so long.
func (a *Auto) MTBF(ran time.Duration) time.Duration {
	if a.Given > 0 {
		return a.Given
	}
	return max(time.Duration(float64(ran)/(float64(a.Failures)+.5)), time.Millisecond)
}

// Cost is the estimated cost of a checkpoint.
func (a *Auto) Cost() time.Duration {
	if len(a.Costs) == 0 {
		return AssumedCost
	}
	return a.Costs.Mean()
}

// Every is the best interval now, from the beginning of one checkpoint to that of the next. The next one cannot begin before this one counts.
func (a *Auto) Every(ran time.Duration) time.Duration {
	least := max(a.Pauses.Mean()+a.Commits.Mean(), shortest)
	if len(a.Levels) > 0 {
		if p, err := a.Plan(ran); err == nil {
			return max(p.Steps[0].Every, least)
		}
	}
	return max(Young(a.Cost(), 0, a.MTBF(ran)), least)
}

// Wait is for how long to wait until the next checkpoint, 0 if it is due. The last one began, or the ranks came
// up, at last. Both times are ages of the job.
func (a *Auto) Wait(last, ran time.Duration) time.Duration {
	return max(0, last+a.Every(ran)-ran)
}

// Lost is the share of the job's time that is lost to checkpoints and failures, by the formula.
func (a *Auto) Lost(ran time.Duration) float64 {
	if len(a.Levels) > 0 {
		if p, err := a.Plan(ran); err == nil {
			return p.Lost
		}
	}
	s := Step{Level: a.base(), Every: a.Every(ran), rate: 1 / a.MTBF(ran).Seconds()}
	return a.Cost().Seconds()/s.Every.Seconds() + s.lost(0)
}

// base is the level that the ranks write. They write it whenever there is a capture, so its cost is part of the capture's.
func (a *Auto) base() Level {
	behind := a.Cost() - min(a.Pauses.Mean(), a.Cost())
	return Level{Name: a.Name, Survives: a.Survives, Commit: After(a.Commits.Mean(), behind), Restart: a.Restarts.Mean()}
}

// After is Level.Commit of a level whose snapshots count so long after the ranks have gone on, in which they have lost cost.
func After(took, cost time.Duration) time.Duration { return max(0, took-cost) }

// Recent holds the newest of a series of measured times, the oldest first.
type Recent []time.Duration

// kept is how many times are kept. It is as many as there are usually between two full images.
const kept = 8

// Add adds a time.
func (r *Recent) Add(d time.Duration) {
	*r = append(*r, max(d, 0))
	if n := len(*r) - kept; n > 0 {
		*r = slices.Delete(*r, 0, n)
	}
}

// Amend corrects the newest time.
func (r Recent) Amend(d time.Duration) {
	if len(r) > 0 {
		r[len(r)-1] = max(d, 0)
	}
}

// Mean is their mean, 0 of none.
func (r Recent) Mean() time.Duration {
	if len(r) == 0 {
		return 0
	}
	sum := 0.0
	for _, d := range r {
		sum += float64(d)
	}
	return time.Duration(sum / float64(len(r)))
}

// Stolen is the time that ranks lose because other work takes cpu of processor time within span. It
// assumes that the ranks always compute, and that idle CPUs are used first.
func Stolen(cpu, span time.Duration, ranks, cpus int) time.Duration {
	if ranks < 1 || cpus < 1 {
		return 0
	}
	idle := time.Duration(max(0, cpus-ranks)) * span
	return max(0, cpu-idle) / time.Duration(min(ranks, cpus))
}
