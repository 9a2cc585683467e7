package interval

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawn is any job that makes sense: at least one level survives everything.
func drawn(t *rapid.T) Job {
	secs := func(label string, from, to float64) time.Duration {
		return seconds(math.Exp(rapid.Float64Range(math.Log(from), math.Log(to)).Draw(t, label)))
	}
	j := Job{Pause: secs("pause", .001, 2), Failures: Failures{MTBF: secs("mtbf", 60, 1e6), Detect: secs("detect", .1, 30), Shape: rapid.SampledFrom([]float64{0, .7, 1, 1.5}).Draw(t, "shape")}}
	sum := 0.0
	for s := range j.Share {
		j.Share[s] = rapid.Float64Range(.01, 1).Draw(t, "share")
		sum += j.Share[s]
	}
	for s := range j.Share {
		j.Share[s] /= sum
	}
	n := rapid.IntRange(1, 4).Draw(t, "levels")
	for i := range n {
		l := Level{Name: string(rune('a' + i)), Survives: Scope(rapid.IntRange(0, int(Scopes)-1).Draw(t, "survives")),
			Cost: secs("cost", .01, 20), Commit: secs("commit", .01, 300), Restart: secs("restart", .01, 300)}
		if i == 0 {
			l.Survives = All
		}
		j.Levels = append(j.Levels, l)
	}
	return j
}

// No set of levels with other intervals is better by the formula.
func TestBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := drawn(t)
		p, err := Best(j)
		if err != nil {
			t.Fatal(err)
		}
		if p.Steps[0].Times != 1 {
			t.Fatalf("the base has %d times itself", p.Steps[0].Times)
		}
		survives := Process
		for _, s := range p.Steps {
			survives = max(survives, s.Survives)
			if s.Every != time.Duration(s.Times)*p.Steps[0].Every || s.Every < s.Commit {
				t.Fatalf("%s: every %v, %d times %v, commit %v", s.Name, s.Every, s.Times, p.Steps[0].Every, s.Commit)
			}
		}
		if survives != All {
			t.Fatalf("%v survives only %v", p, survives)
		}
		one := j
		one.Levels = j.Levels[:1]
		alone, err := Best(one)
		if err != nil || alone.Lost < p.Lost {
			t.Fatalf("level a alone loses %v, the plan %v: %v", alone.Lost, p.Lost, err)
		}
		s := alone.Steps[0]
		lost := func(w float64) float64 {
			return (s.Cost+j.Pause).Seconds()/w + (w/2+(s.Commit+s.Restart+j.Detect).Seconds())/j.MTBF.Seconds()
		}
		if got := lost(s.Every.Seconds()); math.Abs(got-alone.Lost) > 1e-9 {
			t.Fatalf("lost %v, by the formula %v", alone.Lost, got)
		}
		w := max(s.Commit.Seconds(), s.Every.Seconds()*math.Exp(rapid.Float64Range(-3, 3).Draw(t, "other")))
		if lost(w) < alone.Lost-1e-9 {
			t.Fatalf("every %v loses %v, every %v s only %v", s.Every, alone.Lost, w, lost(w))
		}
	})
}

// The shares of what becomes of the time are together 1, and a plan whose intervals are far from the best keeps
// less.
func TestSimulate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := drawn(t)
		p, err := Best(j)
		if err != nil {
			t.Fatal(err)
		}
		o := Simulate(p, j.Failures, 300, 7)
		if sum := o.Efficiency + o.Checkpoints + o.Again + o.Restarts; math.Abs(sum-1) > 1e-6 || min(o.Efficiency, o.Checkpoints, o.Again, o.Restarts) < 0 {
			t.Fatalf("%+v: sum %v", o, sum)
		}
		if again := Simulate(p, j.Failures, 300, 7); again != o {
			t.Fatalf("the same seed gives %+v and %+v", o, again)
		}
	})
	j := Job{Levels: []Level{smallDisk}, Failures: Failures{MTBF: time.Hour, Share: Usual, Detect: time.Second}}
	p, err := Best(j)
	if err != nil {
		t.Fatal(err)
	}
	best := Simulate(p, j.Failures, 5000, 1).Efficiency
	for _, factor := range []float64{1. / 8, 8} {
		if e := Simulate(p.Scaled(factor), j.Failures, 5000, 1).Efficiency; e >= best-.005 {
			t.Errorf("%v times the interval keeps %.4f, the best %.4f", factor, e, best)
		}
	}
}

// A job whose only level does not survive a failure begins again.
func TestNothingSurvives(t *testing.T) {
	f := Failures{MTBF: time.Minute, Share: [Scopes]float64{Node: 1}}
	p := Plan{Steps: []Step{{Level: Level{Survives: Process}, Every: time.Second, Times: 1}}}
	if o := Simulate(p, f, 1000, 1); o.Efficiency != 0 || o.Again < .99 {
		t.Errorf("%+v", o)
	}
}

func TestRefused(t *testing.T) {
	ok := Failures{MTBF: time.Hour, Share: Usual}
	half := ok
	half.Share[Process] = 0
	for want, j := range map[string]Job{
		"1 to 12":          {Failures: ok},
		"must be positive": {Levels: []Level{pfs}},
		"together":         {Levels: []Level{pfs}, Failures: half},
		"costs nothing":    {Levels: []Level{{Name: "x", Survives: All}}, Failures: ok},
		"called pfs":       {Levels: []Level{pfs, pfs}, Failures: ok},
		`scope "all"`:      {Levels: []Level{mem, rs}, Failures: ok},
	} {
		if _, err := Best(j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestAuto(t *testing.T) {
	a := Auto{Given: 50 * time.Second}
	if got := a.Every(time.Hour); got != Young(AssumedCost, 0, 50*time.Second) {
		t.Errorf("before a checkpoint: every %v", got)
	}
	for range 3 {
		a.Costs.Add(time.Second)
		a.Commits.Add(2 * time.Second)
	}
	if got := a.Every(time.Hour); got != 10*time.Second {
		t.Errorf("every %v, want sqrt(2*1*50) s", got)
	}
	for range 2 * kept { // what it costs has changed
		a.Costs.Add(4 * time.Second)
	}
	if got := a.Every(time.Hour); got != 20*time.Second {
		t.Errorf("every %v, want sqrt(2*4*50) s", got)
	}
	for range kept {
		a.Commits.Add(time.Minute)
		a.Pauses.Add(time.Second)
	}
	if got := a.Every(time.Hour); got != 61*time.Second {
		t.Errorf("every %v, want the time until a snapshot counts", got)
	}
	if got := a.Wait(time.Hour-time.Second, time.Hour); got != 60*time.Second {
		t.Errorf("wait for %v", got)
	}
}

// What ranks lose until a snapshot counts is counted once.
func TestAutoCountsOnce(t *testing.T) {
	a := Auto{Given: 10 * time.Second, Costs: recent(800 * time.Millisecond), Pauses: recent(100 * time.Millisecond), Commits: recent(1500 * time.Millisecond), Restarts: recent(time.Second)}
	j := a.Job(0)
	if l := j.Levels[0]; j.Pause != 800*time.Millisecond || l.Cost != 0 || l.Commit != 800*time.Millisecond || l.Restart != time.Second {
		t.Errorf("%+v", j)
	}
	p, err := Best(j)
	if got := a.Lost(0); err != nil || math.Abs(got-p.Lost) > 1e-9 {
		t.Errorf("by itself it loses %v, by its plan %v: %v", got, p.Lost, err)
	}
	a.Levels = []Measured{{Name: "far", Survives: All, Costs: recent(300 * time.Millisecond), Commits: recent(2 * time.Second)}, {Name: "new", Survives: All}}
	j = a.Job(0)
	if far, fresh := j.Levels[1], j.Levels[2]; far.Commit != 2500*time.Millisecond || fresh.Cost != a.Cost() || len(a.Assumed()) != 1 || a.Assumed()[0] != "new" {
		t.Errorf("%+v %v", j, a.Assumed())
	}
}

// Failures that no level survives count as those that one does.
func TestWithin(t *testing.T) {
	if got := Usual.Within(Node); got != (Shares{Process: .35, Node: .65}) || Usual.Within(All) != Usual {
		t.Errorf("%v", got)
	}
}

// What a job measures of failures: fewer of them and longer intervals the longer it runs well, and more at each
// failure.
func TestMeasuredFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Auto{Failures: rapid.IntRange(0, 50).Draw(t, "failures")}
		ran := time.Duration(rapid.Int64Range(1, int64(1000*time.Hour)).Draw(t, "ran"))
		before, every := a.MTBF(ran), a.Every(ran)
		if later := a.MTBF(2 * ran); later < before {
			t.Fatalf("%v after %v, %v after twice that", before, ran, later)
		}
		if a.Wait(ran, ran) != every {
			t.Fatalf("right after a checkpoint: wait for %v, not %v", a.Wait(ran, ran), every)
		}
		a.Failures++
		if a.MTBF(ran) > before || a.Every(ran) > every {
			t.Fatalf("a failure more: %v between them after %v, every %v after %v", a.MTBF(ran), before, a.Every(ran), every)
		}
	})
	// It comes near the truth.
	a := Auto{Failures: 100}
	if got := a.MTBF(100 * 10 * time.Second); got < 9*time.Second || got > 11*time.Second {
		t.Errorf("100 failures in 1000 s: one in %v", got)
	}
}

func TestStolen(t *testing.T) {
	for _, c := range []struct {
		cpu, span   time.Duration
		ranks, cpus int
		want        time.Duration
	}{
		{4 * time.Second, 4 * time.Second, 2, 2, 2 * time.Second},
		{4 * time.Second, 4 * time.Second, 8, 2, 2 * time.Second}, // those that wait for a CPU lose no more
		{4 * time.Second, 4 * time.Second, 1, 2, 0},               // the other CPU does it
		{6 * time.Second, 4 * time.Second, 1, 2, 2 * time.Second},
		{time.Second, time.Second, 0, 2, 0},
	} {
		if got := Stolen(c.cpu, c.span, c.ranks, c.cpus); got != c.want {
			t.Errorf("Stolen(%v, %v, %d ranks, %d CPUs) = %v, want %v", c.cpu, c.span, c.ranks, c.cpus, got, c.want)
		}
	}
}

func TestScopes(t *testing.T) {
	for s := range Scopes {
		if got, err := ParseScope(s.String()); got != s || err != nil {
			t.Errorf("%v: %v, %v", s, got, err)
		}
	}
	if _, err := ParseScope("planet"); err == nil {
		t.Error("planet is a scope")
	}
}
