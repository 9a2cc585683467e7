package head

import (
	"runtime"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/job/fleet"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/storage"
	"github.com/gorun-mpi/gorun/internal/storage/interval"
)

// auto measures what checkpoints, restarts and failures cost the job. With -ckpt-every auto it also says when
// the next checkpoint is due.
type auto struct {
	interval.Auto
	last  time.Time       // when the newest checkpoint was due, or the ranks came up; zero: they are not up
	fell  time.Time       // when the cause that ends the present life became known; zero: there is none
	rose  time.Time       // when the ranks of the newest life came up
	timer *time.Timer     // of the next checkpoint; nil: none is planned
	told  time.Duration   // the interval that the user was told
	every []time.Duration // the interval of each level but the base
}

// ran is how long the job has run.
func (h *head) ran() time.Duration { return time.Since(h.began) }

// planNext sets the timer for the next checkpoint.
func (h *head) planNext() {
	a := &h.auto
	if !h.opt.CkptAuto || a.last.IsZero() {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	wait := a.Wait(a.last.Sub(h.began), h.ran())
	a.timer = h.after(wait, h.perhapsDue)
}

// perhapsDue takes a checkpoint if one is due. The best interval may have changed since the timer
// was set.
func (h *head) perhapsDue() {
	a := &h.auto
	if a.last.IsZero() || a.Wait(a.last.Sub(h.began), h.ran()) > 0 {
		h.planNext()
		return
	}
	if h.job.Busy() { // the last one takes longer than was expected
		a.timer = h.after(a.Every(h.ran())/16, h.perhapsDue)
		return
	}
	a.last = time.Now()
	h.periodic()
	h.planNext()
}

// up begins to count when all ranks of a life are up. The failure that ended the last life began
// when the node fell silent, not when that was noticed. The cost of making copies again is added
// later, see lostByMending.
func (a *auto) up(life int, now time.Time, f *fleet.Fleet) {
	if life > 1 && !a.fell.IsZero() {
		if f != nil {
			if silent, any := f.SilentSince(a.rose); any && silent.Before(a.fell) {
				a.fell = silent
			}
		}
		a.Restarts.Add(now.Sub(a.fell))
	}
	a.fell, a.last, a.rose = time.Time{}, now, now
}

// unsteady records that a cause is known which ends the life.
func (a *auto) unsteady(now time.Time) {
	if a.fell.IsZero() {
		a.fell = now
	}
}

// again counts a failure: another life begins.
func (a *auto) again() {
	a.Failures++
	a.last = time.Time{}
}

// measure records the cost of a checkpoint that was just committed. The ranks' loss since they went
// on is estimated by the processor time of the writing, until the agents have reported their
// measurements.
func (inc *incarnation) measure(images []oob.ImageInfo, self bool) {
	h, g := inc.h, &inc.gate
	if g.opened.IsZero() {
		return // the job ends with it
	}
	behind := time.Since(g.opened)
	cpu := map[string]time.Duration{}
	for _, l := range inc.links {
		for _, rank := range l.ranks {
			cpu[l.machine] += time.Duration(images[rank].CPU)
		}
	}
	b := &inc.beside
	b.stood, b.stolen, b.self = g.stood(), inc.stolen(cpu, behind), self
	h.auto.Costs.Add(b.stood + b.stolen)
	h.auto.Pauses.Add(b.stood)
	h.auto.Commits.Add(behind)
	g.ready, b.newest = 0, inc.written()
	h.planNext()
	if len(h.auto.Levels) > 0 {
		h.adapt()
		return
	}
	if every := h.auto.Every(h.ran()); h.opt.CkptAuto && (every > h.auto.told*5/4 || every < h.auto.told*4/5) {
		h.auto.told = every
		h.verbose("a checkpoint every %v", h.costs())
	}
}

// stolen is the time that ranks lose to other work on their processors, on the machine that loses
// most.
func (inc *incarnation) stolen(cpu map[string]time.Duration, span time.Duration) (most time.Duration) {
	ranks, cpus := map[string]int{}, map[string]int{}
	for _, l := range inc.links {
		ranks[l.machine] += len(l.ranks)
		cpus[l.machine] = l.cpus
		if l.cpus == 0 {
			cpus[l.machine] = runtime.NumCPU()
		}
	}
	for m := range cpu {
		most = max(most, interval.Stolen(cpu[m], span, ranks[m], cpus[m]))
	}
	return most
}

// costs is what is known of the job's intervals, nil if it is not checkpointable.
func (h *head) costs() *control.Interval {
	if h.opt.CR == "" {
		return nil
	}
	a, ran := &h.auto, h.ran()
	c := &control.Interval{
		Points: h.opt.CkptPoints,
		Auto:   h.opt.CkptAuto, Every: h.opt.CkptEvery, Measured: len(a.Costs), Cost: a.Cost(), Pause: a.Pauses.Mean(), Commit: a.Commits.Mean(), Restart: a.Restarts.Mean(),
		MTBF: a.MTBF(ran), Given: a.Given > 0, Failures: a.Failures, Job: a.Job(ran), Assumed: a.Assumed(),
	}
	if c.Auto {
		c.Every, c.Lost = a.Every(ran), a.Lost(ran)
	}
	return c
}

// openAuto prepares the measurement of each level.
func (h *head) openAuto() {
	b := h.opt.Base
	if b == nil {
		h.auto.Name, h.auto.Survives = "snapshots", h.storage.Survives(nil)
		return
	}
	h.auto.Name, h.auto.Survives = b.Name, h.storage.Survives(b)
	for i := range h.opt.Levels {
		h.auto.every = append(h.auto.every, h.opt.Levels[i].Every)
		h.auto.Levels = append(h.auto.Levels, interval.Measured{Name: h.opt.Levels[i].Name, Survives: h.storage.Survives(&h.opt.Levels[i])})
	}
	h.adapt()
}

// adapt chooses the best levels and intervals by the measurements so far.
func (h *head) adapt() {
	p, err := h.auto.Plan(h.ran())
	if err != nil || !h.opt.CkptAuto {
		return
	}
	told, changed := h.auto.told, false
	for i, l := range h.opt.Levels {
		now, was := p.Of(l.Name), h.auto.every[i]
		changed = changed || now > was*5/4 || now < was*4/5
	}
	if now := p.Steps[0].Every; changed || now > told*5/4 || now < told*4/5 {
		h.auto.told = now
		for i, l := range h.opt.Levels {
			h.auto.every[i] = p.Of(l.Name)
		}
		h.verbose("checkpoints: %s; %.2g %% of the time is lost", h.auto.Words(p), 100*p.Lost)
		h.storage.SetEvery(h.auto.every)
	}
}

// measureCopy records the cost of a copy into a level.
func (h *head) measureCopy(i int, c storage.Cost) {
	if i >= len(h.auto.Levels) || c.Took == 0 || h.inc == nil {
		return
	}
	if b := &h.inc.beside; b.known {
		h.auto.Levels[i].Costs.Add(b.copying)
		h.auto.Levels[i].Commits.Add(c.Took)
		h.adapt()
		return
	}
	cpu := map[string]time.Duration{}
	for _, l := range h.inc.links {
		name := h.storage.OwnName()
		if h.fleet != nil {
			name = l.agent.Host()
		}
		cpu[l.machine] = c.CPU[name]
	}
	m := &h.auto.Levels[i]
	m.Costs.Add(h.inc.stolen(cpu, c.Took))
	m.Commits.Add(c.Took)
	h.adapt()
}
