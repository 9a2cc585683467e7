package interval

import (
	"math"
	"strings"
	"testing"
	"time"
)

func recent(d ...time.Duration) Recent { return Recent(d) }

// A job with levels chooses what Best chooses of its measurements, and says so. What costs more than it is worth gets nothing.
func TestAutoLevels(t *testing.T) {
	a := Auto{Given: time.Hour, Costs: recent(100 * time.Millisecond), Pauses: recent(100 * time.Millisecond), Commits: recent(450 * time.Millisecond), Restarts: recent(350 * time.Millisecond),
		Name: "mem", Survives: Node, Levels: []Measured{{Name: "dir", Survives: All}, {Name: "far", Survives: All}}}
	p, err := a.Plan(0)
	if err != nil || p.Steps[0].Name != "mem" || len(p.Steps) != 2 {
		t.Fatalf("nothing of the others was measured: %+v, %v", p, err)
	}
	a.Levels[0].Costs, a.Levels[0].Commits = recent(300*time.Millisecond), recent(time.Second)
	a.Levels[1].Costs, a.Levels[1].Commits = recent(9*time.Second), recent(time.Minute)
	p, err = a.Plan(0)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Best(Job{Pause: 100 * time.Millisecond, Failures: Failures{MTBF: time.Hour, Share: Usual}, Levels: []Level{
		{Name: "mem", Survives: Node, Commit: 450 * time.Millisecond, Restart: 350 * time.Millisecond},
		{Name: "dir", Survives: All, Cost: 300 * time.Millisecond, Commit: 1150 * time.Millisecond, Restart: 350 * time.Millisecond},
	}})
	if err != nil || math.Abs(p.Lost-want.Lost) > 1e-9 || p.Of("dir") != want.Of("dir") || p.Of("far") != 0 || a.Every(0) != want.Steps[0].Every || a.Lost(0) != p.Lost {
		t.Errorf("%+v, want %+v, %v", p, want, err)
	}
	words := a.Words(p)
	if !strings.HasPrefix(words, "mem every 3") || !strings.Contains(words, ", dir every 1m30s") || !strings.HasSuffix(words, "; not worth while: far") {
		t.Error(words)
	}
	a.Given = 24 * time.Hour
	if later := a.Every(0); later <= p.Steps[0].Every {
		t.Errorf("every %v with rare failures, %v with frequent ones", later, p.Steps[0].Every)
	}
}

// Failures that no level survives do not keep the others from being planned for.
func TestAutoWeak(t *testing.T) {
	a := Auto{Given: time.Hour, Name: "mem", Survives: Process, Levels: []Measured{{Name: "two", Survives: Node}}}
	p, err := a.Plan(0)
	if err != nil || p.Of("two") == 0 {
		t.Errorf("%+v, %v", p, err)
	}
}
