package nodes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/control"
	"github.com/gorun-mpi/gorun/internal/storage/interval"
)

// BenchmarkLoss cuts the power of a node, in turns of a job of 4 ranks with snapshots in the memory of neighbours and of one with
// snapshots in the folder that all nodes see, and measures how long it takes from the instant at which the node is fenced to the next step
// of the program on a spare.
//
//	go test ./internal/e2e/nodes -run '^$' -bench Loss -benchtime 3x -timeout 1h
//
// Figures are medians, ratio that of ratios within a round.
func BenchmarkLoss(b *testing.B) {
	for _, mb := range []string{"64", "256"} {
		b.Run("4x"+mb+"MB", func(b *testing.B) {
			f := figures{}
			c := newCluster(b, 5)
			for b.Loop() {
				for _, p := range []place{places[1], places[3]} {
					f.add(p.name+"-ms", c.lose(p, mb))
				}
			}
			f.ratio("ratio", "ring-ms", "shared-ms")
			f.report(b)
		})
	}
}

// lose runs a job, cuts the power of one of its nodes, and returns the milliseconds from the fence to the next step.
func (c *cluster) lose(p place, mb string) float64 {
	w := c.walk(p, mb, "-hosts", "n1:1,n2:1,n3:1,n4:1,n5:1", "-np", "4", "-spares", "1", "-restarts", "1", "-lease", "3s")
	w.gorun("resume")
	w.gorun("checkpoint")
	w.gorun("checkpoint") // slots are used again
	life, _ := w.line()
	c.Kill("n2")
	w.awaitStep(life)
	now := time.Now()
	nodes := w.status().Nodes
	fenced := nodes[slices.IndexFunc(nodes, func(n control.Node) bool { return n.Name == "n2" })]
	if said, _ := w.said.now(); fenced.State != "fenced" || !strings.Contains(said, "restarting from snapshot 2") {
		c.t.Fatalf("node n2 is %s:\n%s", fenced.State, said)
	}
	w.gorun("suspend")
	w.over()
	c.Start("n2")
	return ms(now.Sub(fenced.Since))
}

// BenchmarkFailures runs a job with snapshots in the memory of neighbours for a minute in which a rank dies every 10 s, with -ckpt-every auto and with
// fixed intervals, and tells which part of the time was work that was kept.
//
//	go test ./internal/e2e/nodes -run '^$' -bench Failures/short -benchtime 1x -timeout 1h      auto, 1s, 2s
//	go test ./internal/e2e/nodes -run '^$' -bench Failures/long -benchtime 1x -timeout 1h       auto, 5s, 10s
//
// All have the same times between failures: an exponential distribution cut into as many parts as there are failures, in random order. NAME is the
// efficiency: work that was kept, beside what the job does when nothing happens to it, measured before and after. NAME-plan is what gorun plan says of it by
// the figures that the job has measured of itself. auto-NAME is the difference to a fixed interval, and auto-NAME-noise its standard error, of the
// differences between two failures. NAME-drift is by how much the machine was faster afterwards than before: far from 1 it had other things to do,
// and the figures mean little.
func BenchmarkFailures(b *testing.B) {
	for name, fixed := range map[string][]string{"short": {"1s", "2s"}, "long": {"5s", "10s"}} {
		b.Run(name, func(b *testing.B) {
			c := newCluster(b, 2)
			for b.Loop() {
				auto := c.fails("auto", "-mtbf", failEvery.String())
				report(b, "auto", auto)
				for _, every := range fixed {
					o := c.fails(every)
					report(b, every, o)
					gain, noise := auto.over(o)
					b.ReportMetric(gain, "auto-"+every)
					b.ReportMetric(noise, "auto-"+every+"-noise")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func report(b *testing.B, name string, o outcome) {
	var parts []string
	for _, part := range o.parts {
		parts = append(parts, fmt.Sprintf("%.1f of %.1f s", part.work, part.time))
	}
	b.Logf("%s: efficiency %.4f; kept between failures: %s", name, o.efficiency(), strings.Join(parts, ", "))
	b.Logf("%s: a checkpoint every %v", name, o.measured)
	b.ReportMetric(o.efficiency(), name)
	b.ReportMetric(planned(b, o.measured), name+"-plan")
	b.ReportMetric(o.drift, name+"-drift")
}

const (
	failEvery = 10 * time.Second
	failures  = 6
)

// gaps are the times between failures.
func gaps() []time.Duration {
	all, sum := make([]float64, failures), 0.0
	for i := range all {
		all[i] = -math.Log(1 - (float64(i)+.5)/failures)
		sum += all[i]
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(failures, func(i, k int) { all[i], all[k] = all[k], all[i] })
	gaps := make([]time.Duration, failures)
	for i := range gaps {
		gaps[i] = time.Duration(all[i] / sum * failures * float64(failEvery))
	}
	return gaps
}

// outcome is what has become of a job that fails again and again.
type outcome struct {
	parts    []part
	measured *control.Interval
	drift    float64
}

// part is the time from the first step of a life to the first one of the next, and the work of it that the next has, both in seconds.
type part struct{ work, time float64 }

func (o outcome) sums() (work, time float64) {
	for _, p := range o.parts {
		work, time = work+p.work, time+p.time
	}
	return work, time
}

func (o outcome) efficiency() float64 {
	work, time := o.sums()
	return work / time
}

// over compares two jobs that have had the same failures.
func (o outcome) over(q outcome) (gain, noise float64) {
	gain = o.efficiency() - q.efficiency()
	_, t1 := o.sums()
	_, t2 := q.sums()
	n, all := float64(len(o.parts)), 2/(1/t1+1/t2)
	for i := range o.parts {
		d := (o.parts[i].work-o.efficiency()*o.parts[i].time)/all - (q.parts[i].work-q.efficiency()*q.parts[i].time)/all
		noise += d * d
	}
	return gain, math.Sqrt(noise * n / (n - 1))
}

// pair is a job of two ranks, which have the CPUs for themselves.
func (c *cluster) pair(args ...string) *walker {
	w := c.walk(places[1], "16", append([]string{"-hosts", "n1:1,n2:1", "-np", "2", "-restarts", "100"}, args...)...)
	w.work(c, perStep)
	w.gorun("resume")
	w.steps(time.Second)
	return w
}

// undisturbed is how many steps such a job makes a second when nothing happens to it.
func (c *cluster) undisturbed() float64 {
	w := c.pair()
	rate := w.steps(5 * time.Second)
	w.gorun("suspend")
	w.over()
	return rate
}

// fails runs a job whose ranks die, between two that nothing happens to.
func (c *cluster) fails(every ...string) outcome {
	before := c.undisturbed()
	o := c.dying(every...)
	after := c.undisturbed()
	for i := range o.parts {
		o.parts[i].work /= (before + after) / 2
	}
	o.drift = after / before
	return o
}

// dying runs such a job. Its work is in steps.
func (c *cluster) dying(every ...string) outcome {
	w := c.pair(append([]string{"-ckpt-every"}, every...)...)
	var lives []string
	die := func() (at time.Time) { // the rank, once there is one
		life, _ := w.line()
		lives = append(lives, life)
		for c.Command("n2", "pkill", "-KILL", "-f", "--", "^[^ ]*shared/march").Run() != nil {
			time.Sleep(10 * time.Millisecond)
		}
		return time.Now()
	}
	died := die() // the first life begins with a restart, as all others do
	_, kept := w.awaitStep(lives...)
	at := time.Now()
	var o outcome
	for _, gap := range gaps() {
		time.Sleep(time.Until(died.Add(gap)))
		died = die()
		_, step := w.awaitStep(lives...)
		now := time.Now()
		o.parts = append(o.parts, part{float64(step - kept), now.Sub(at).Seconds()})
		at, kept = now, step
	}
	o.measured = w.status().Interval
	w.gorun("suspend")
	w.over()
	return o
}

// planned is what gorun plan says of a job by what it has measured. Where a checkpoint takes longer than the interval, the next one is left out.
func planned(b *testing.B, i *control.Interval) float64 {
	period := i.Every
	for !i.Auto && period < i.Pause+i.Commit {
		period += i.Every
	}
	j := i.Job
	p, err := interval.Best(j)
	if err != nil {
		b.Fatal(err)
	}
	p.Steps[0].Every = max(period-i.Cost, time.Millisecond) // of work
	j.MTBF = failEvery
	return interval.Simulate(p, j.Failures, 10_000, 1).Efficiency
}
