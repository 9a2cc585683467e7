package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/storage/interval"
)

var planCommand = command{
	name: "plan", args: "[JOB]", short: "tell how often checkpoints are best taken, and what failures will cost",
	long: `
Computes which levels of checkpoints are worth while and how often each is best used, and
simulates a job that fails again and again. It prints which part of the time is left for
the work, and draws how that depends on the interval.

-level says what a level costs. Without it the figures are those that JOB, which runs with
-cr and has taken a checkpoint, has measured of itself and of its levels. Its failures are
noticed as fast as its restarts have been measured; those that no level survives count as
the largest that one does. JOB is the beginning of a job's id, and may be left out when only
one job runs.

  gorun plan -mtbf 6h
  gorun plan -mtbf 6h -nodes 1000 -pause 1.9s -level mem=2.5s,32s,28s,node -level pfs=8s,256s,280s

A level is NAME=COST,COMMIT,RESTART[,SCOPE]: what one checkpoint takes from the ranks,
without -pause; how long it takes, behind the ranks, until it counts, less the part of COST
that they lose in that time; and how long the ranks take to go on from it. It is not how
long writing takes that decides, but what the ranks lose meanwhile. SCOPE is the largest
failure that it survives:

  process  the death of ranks
  node     the loss of a node, as the memory of another node does
  nodes    the loss of several at once
  all      everything, as a disk of its own does (the default)`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		e := estimate{std: std, shares: sharesFlag(interval.Usual), levels: levelsFlag{}}
		durationVar(fs, &e.mtbf, "mtbf", 0, "the mean time between two failures of the job, a `duration` (6h); without it that\nwhich JOB has seen")
		fs.IntVar(&e.nodes, "nodes", 0, "the `number` of nodes of the job; tells also what becomes of it on fewer and more")
		fs.Var(&e.levels, "level", "a level and its times, `NAME=COST,COMMIT,RESTART[,SCOPE]`; may be repeated")
		durationVar(fs, &e.pause, "pause", 0, "`duration` for which the ranks stand for a checkpoint, whichever levels it goes to")
		durationVar(fs, &e.detect, "detect", 3*time.Second, "`duration` until a failure is noticed; with figures of JOB 0")
		fs.Var(&e.shares, "failures", "how many failures in a hundred take how much with them, `SHARES`")
		fs.Float64Var(&e.shape, "shape", 1, "`shape` of the Weibull distribution of times between failures; 1: exponential; less:\none is often followed by another (.7 is found on large machines)")
		fs.IntVar(&e.count, "count", 10_000, "how `many` failures are simulated")
		fs.BoolVar(&e.json, "json", false, "print it as JSON")
		return func(args []string) int {
			if err := e.check(args); err != nil {
				return usage(std, "plan: %v", err)
			}
			if len(e.levels) == 0 {
				given := set(fs)["detect"]
				return withJob(std, args, func(r *control.Record) error { return e.ofJob(r, given) })
			}
			return failed(std, e.run())
		}
	},
}

// estimate carries out one plan command.
type estimate struct {
	std                 stdio
	mtbf, pause, detect time.Duration
	nodes, count        int
	levels              levelsFlag
	shares              sharesFlag
	shape               float64
	json                bool
}

func (e *estimate) check(args []string) error {
	switch {
	case len(e.levels) > 0 && len(args) > 0:
		return errors.New("-level or JOB, not both")
	case len(e.levels) > 0 && e.mtbf <= 0:
		return errors.New("-level needs -mtbf")
	case e.nodes < 0:
		return fmt.Errorf("-nodes %d: at least 1", e.nodes)
	case e.count < 1 || e.count > 10_000_000:
		return fmt.Errorf("-count %d: 1 to 10,000,000", e.count)
	case !(e.shape >= .1 && e.shape <= 10):
		return fmt.Errorf("-shape %v: .1 to 10", e.shape)
	}
	return nil
}

// ofJob takes the figures that a job has measured.
func (e *estimate) ofJob(r *control.Record, detect bool) error {
	s, err := status(r)
	if err != nil {
		return err
	}
	i := s.Interval
	switch {
	case i == nil:
		return fmt.Errorf("job %s was started without -cr and has measured nothing; -level says what checkpoints cost", s.Job)
	case i.Measured == 0:
		return fmt.Errorf("job %s has taken no checkpoint yet: gorun checkpoint %.8s takes one; or say with -level what they cost", s.Job, s.Job)
	}
	if e.mtbf == 0 {
		e.mtbf = i.MTBF
	}
	if !detect {
		e.detect = 0 // Restart counts from when the failure was known
	}
	e.pause, e.levels = i.Job.Pause, i.Job.Levels
	most := interval.Process
	for _, l := range e.levels {
		most = max(most, l.Survives)
	}
	e.shares = sharesFlag(interval.Shares(e.shares).Within(most))
	if !e.json {
		fmt.Fprintf(e.std.out, "job %s, %d checkpoints measured", s.Job, i.Measured)
		if i.Restart == 0 {
			fmt.Fprint(e.std.out, ", no restart: it counts as nothing")
		}
		fmt.Fprintln(e.std.out)
		if len(i.Assumed) > 0 {
			fmt.Fprintf(e.std.out, "no copy measured for level %s: it is taken to cost what a checkpoint does\n", strings.Join(i.Assumed, ", "))
		}
	}
	return e.run()
}

func (e *estimate) job(mtbf time.Duration) interval.Job {
	return interval.Job{Pause: e.pause, Levels: e.levels, Failures: interval.Failures{MTBF: mtbf, Share: interval.Shares(e.shares), Detect: e.detect, Shape: e.shape}}
}

// outcome is the best plan and what becomes of the job.
type outcome struct {
	MTBF time.Duration
	Plan interval.Plan
	interval.Outcome
}

func (e *estimate) at(mtbf time.Duration) (outcome, error) {
	j := e.job(mtbf)
	p, err := interval.Best(j)
	if err != nil {
		return outcome{}, err
	}
	return outcome{mtbf, p, interval.Simulate(p, j.Failures, e.count, 1)}, nil
}

func (e *estimate) run() error {
	o, err := e.at(e.mtbf)
	if err != nil {
		return err
	}
	if e.json {
		return printJSON(e.std, o)
	}
	e.table(o)
	if e.nodes > 0 {
		if err := e.sizes(); err != nil {
			return err
		}
	}
	e.draw(o)
	return nil
}

// table prints the plan.
func (e *estimate) table(o outcome) {
	fmt.Fprintf(e.std.out, "a failure every %v", brief(e.mtbf))
	if e.nodes > 1 {
		fmt.Fprintf(e.std.out, ", on each of %d nodes every %v", e.nodes, days(e.mtbf.Seconds()*float64(e.nodes)))
	}
	fmt.Fprint(e.std.out, "\n\n")
	w := tabwriter.NewWriter(e.std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LEVEL\tSURVIVES\tRANKS LOSE\tCOUNTS AFTER\tRESTART\tEVERY")
	for _, l := range e.levels {
		every := "not worth while"
		for _, s := range o.Plan.Steps {
			if s.Name == l.Name {
				every = brief(s.Every)
			}
		}
		fmt.Fprintf(w, "%s\t%v\t%v\t%v\t%v\t%s\n", l.Name, l.Survives, brief(l.Cost+e.pause), brief(l.Commit), brief(l.Restart), every)
	}
	w.Flush()
	fmt.Fprintf(e.std.out, "\nefficiency %.4f: of the time %.2f %% goes to checkpoints, %.2f %% to work that is done again, %.2f %% to restarts\n(%d failures simulated)\n",
		o.Efficiency, 100*o.Checkpoints, 100*o.Again, 100*o.Restarts, e.count)
}

// sizes prints what becomes of the job on other numbers of nodes.
func (e *estimate) sizes() error {
	fmt.Fprintln(e.std.out)
	w := tabwriter.NewWriter(e.std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NODES\tA FAILURE EVERY\tEFFICIENCY\tCHECKPOINTS EVERY")
	for _, factor := range []float64{1. / 16, 1. / 4, 1, 4, 16} {
		n := int(math.Round(float64(e.nodes) * factor))
		if n < 1 {
			continue
		}
		o, err := e.at(time.Duration(float64(e.mtbf) * float64(e.nodes) / float64(n)))
		if err != nil {
			return err
		}
		var every []string
		for _, s := range o.Plan.Steps {
			every = append(every, s.Name+" "+brief(s.Every))
		}
		fmt.Fprintf(w, "%d\t%v\t%.4f\t%s\n", n, brief(o.MTBF), o.Efficiency, strings.Join(every, ", "))
	}
	return w.Flush()
}

// The drawing: efficiency against the interval, which doubles with each step.
const (
	drawFrom, drawTo = -4, 4 // powers of 2 times the best interval
	drawPerStep      = 6     // columns for each
	drawRows         = 12
	drawFailures     = 2000
)

// draw draws how the efficiency depends on the interval of the base.
func (e *estimate) draw(o outcome) {
	j := e.job(e.mtbf)
	var at []float64
	for x := drawFrom * drawPerStep; x <= drawTo*drawPerStep; x++ {
		p := o.Plan.Scaled(math.Pow(2, float64(x)/drawPerStep))
		at = append(at, interval.Simulate(p, j.Failures, min(e.count, drawFailures), 2).Efficiency)
	}
	fmt.Fprintf(e.std.out, "\nefficiency by the interval of level %s\n\n", o.Plan.Steps[0].Name)
	plot(e.std.out, at)
	var axis strings.Builder
	for step := drawFrom; step <= drawTo; step += 2 {
		fmt.Fprintf(&axis, "%-*s", 2*drawPerStep, brief(o.Plan.Scaled(math.Pow(2, float64(step))).Steps[0].Every))
	}
	fmt.Fprintf(e.std.out, "%8s%s\n", "", strings.TrimRight(axis.String(), " "))
}

// plot draws a line of values, one a column.
func plot(w io.Writer, at []float64) {
	low, high := 1.0, 0.0
	for _, y := range at {
		low, high = min(low, y), max(high, y)
	}
	if high-low < 1e-9 {
		low, high = max(0, low-.01), high+.01
	}
	row := func(y float64) int { return int(math.Round((y - low) / (high - low) * (drawRows - 1))) }
	for r := drawRows - 1; r >= 0; r-- {
		line := make([]byte, len(at))
		for x, y := range at {
			line[x] = ' '
			if row(y) == r {
				line[x] = '*'
			}
		}
		label := ""
		if r%3 == 2 || r == 0 {
			label = fmt.Sprintf("%.3f", low+(high-low)*float64(r)/(drawRows-1))
		}
		fmt.Fprintf(w, "%6s |%s\n", label, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(w, "%6s +%s\n", "", strings.Repeat("-", len(at)))
}

// brief is a duration of three digits or so.
func brief(d time.Duration) string {
	unit := time.Microsecond
	for d >= 1000*unit && unit < time.Second {
		unit *= 10
	}
	if d > 48*time.Hour {
		return days(d.Seconds())
	}
	if d >= time.Minute {
		unit = time.Second
	}
	s := d.Round(unit).String()
	if d >= time.Hour {
		s = strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	if whole, ok := strings.CutSuffix(s, "m0s"); ok {
		s = whole + "m"
	}
	if whole, ok := strings.CutSuffix(s, "h0m"); ok {
		s = whole + "h"
	}
	return s
}

// days is a long time, which may be longer than a duration can be.
func days(seconds float64) string {
	if seconds <= 48*3600 {
		return brief(time.Duration(seconds * 1e9))
	}
	return fmt.Sprintf("%.3g days", seconds/86400)
}

// levelsFlag collects levels.
type levelsFlag []interval.Level

func (f *levelsFlag) String() string { return "" }

func (f *levelsFlag) Set(s string) error {
	name, times, ok := strings.Cut(s, "=")
	parts := strings.Split(times, ",")
	if !ok || name == "" || len(parts) < 3 || len(parts) > 4 {
		return errors.New("write NAME=COST,COMMIT,RESTART or NAME=COST,COMMIT,RESTART,SCOPE, as in disk=400ms,1s,2s,all")
	}
	l := interval.Level{Name: name, Survives: interval.All}
	for i, d := range []*time.Duration{&l.Cost, &l.Commit, &l.Restart} {
		if err := (*durationFlag)(d).Set(parts[i]); err != nil {
			return err
		}
	}
	if len(parts) == 4 {
		var err error
		if l.Survives, err = interval.ParseScope(parts[3]); err != nil {
			return err
		}
	}
	*f = append(*f, l)
	return nil
}

// sharesFlag is how failures are shared out, in hundredths.
type sharesFlag [interval.Scopes]float64

func (f *sharesFlag) String() string {
	var all []string
	for s, share := range f {
		all = append(all, fmt.Sprintf("%v=%v", interval.Scope(s), math.Round(1e6*share)/1e4))
	}
	return strings.Join(all, ",")
}

func (f *sharesFlag) Set(s string) error {
	var shares sharesFlag
	sum := 0.0
	for _, part := range strings.Split(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		scope, err := interval.ParseScope(name)
		if err != nil {
			return err
		}
		share, err := strconv.ParseFloat(value, 64)
		if err != nil || !(share >= 0 && share <= 100) {
			return fmt.Errorf("%q: a number from 0 to 100 is wanted, as in %v=%v", part, scope, 100*interval.Usual[scope])
		}
		sum += share - 100*shares[scope]
		shares[scope] = share / 100
	}
	if math.Abs(sum-100) > .01 {
		return fmt.Errorf("together they are %v, not 100", sum)
	}
	for i := range shares {
		shares[i] *= 100 / sum
	}
	*f = shares
	return nil
}
