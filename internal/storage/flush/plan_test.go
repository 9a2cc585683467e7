package flush

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var t0 = time.Unix(1000, 0)

func at(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }

// all has one newest snapshot for all levels.
func all(seq int) func(int) int { return func(int) int { return seq } }

// The newest is copied when a level is due; nothing new, nothing copied; one at a time for each level.
func TestPlan(t *testing.T) {
	p := NewPlan([]Level{{"node", 10 * time.Second}, {"dir", 60 * time.Second}}, t0)
	if _, ok := p.Next(all(1), at(9)); ok {
		t.Error("before its time")
	}
	if _, ok := p.Next(all(0), at(11)); ok {
		t.Error("without a snapshot")
	}
	level, ok := p.Next(all(2), at(61))
	if !ok || level != 0 {
		t.Fatal(level, ok)
	}
	if said := p.Begin(level, at(61)); !strings.Contains(said, "node cannot follow: skipping 5") {
		t.Error(said)
	}
	if level, ok = p.Next(all(3), at(62)); !ok || level != 1 {
		t.Error("node's copy holds up dir's")
	}
	p.End(0, 2, nil, at(63))
	if level, ok = p.Next(all(3), at(64)); !ok || level != 1 {
		t.Fatal(level, ok)
	}
	if said := p.Begin(1, at(64)); said != "" || !p.Levels[1].Busy {
		t.Error(said)
	}
	if level, ok := p.Next(all(4), at(1000)); !ok || level != 0 {
		t.Error("dir's copy holds up node's, or dir gets two at once")
	}
	p.End(1, 3, nil, at(66))
	if _, ok = p.Next(all(3), at(1000)); !ok || p.Levels[0].Last != 2 {
		t.Error("node lacks 3")
	}
	if p.Levels[1].Last != 3 || p.Levels[1].Took != 2*time.Second {
		t.Errorf("%+v", p.Levels[1])
	}
}

// A level that has all that there is, such as while checkpoints are held, is not late when the next one comes. One that could not get it is.
func TestPlanNothingNew(t *testing.T) {
	p := NewPlan([]Level{{"dir", 10 * time.Second}}, t0)
	p.Levels[0].Last = 4
	if _, ok := p.Next(all(4), at(99)); ok {
		t.Error("it has that")
	}
	if _, ok := p.Next(all(0), at(119)); ok {
		t.Error("it cannot be read now")
	}
	if level, ok := p.Next(all(5), at(120)); !ok || level != 0 {
		t.Fatal(level, ok)
	}
	if said := p.Begin(0, at(120)); !strings.Contains(said, "skipping 2") {
		t.Error(said)
	}
	p.End(0, 5, nil, at(121))
	p.Next(all(5), at(1000))
	if _, ok := p.Next(all(6), at(1001)); !ok {
		t.Fatal("it lacks 6")
	}
	if said := p.Begin(0, at(1001)); said != "" {
		t.Error(said)
	}
}

// A level that fails is tried again ever later, and told once for each reason. The others go on.
func TestPlanFails(t *testing.T) {
	p := NewPlan([]Level{{"node", 10 * time.Second}, {"dir", 20 * time.Second}}, t0)
	full := errors.New("no space")
	now, pauses := at(20), []int{}
	p.Levels[0].Last = 100
	for i := range 6 {
		level, ok := p.Next(all(7), now)
		if !ok || level != 1 {
			t.Fatal(level, ok)
		}
		p.Begin(level, now)
		said := p.End(1, 7, full, now)
		if told := strings.Contains(said, "less protection") && strings.Contains(said, "no space"); told != (i == 0) {
			t.Errorf("%d: %q", i, said)
		}
		pauses = append(pauses, int(p.Levels[1].Due.Sub(now)/time.Second))
		now = p.Levels[1].Due
	}
	for i, want := range []int{1, 2, 4, 8, 16, 20} {
		if pauses[i] != want {
			t.Fatal(pauses)
		}
	}
	p.Begin(1, now)
	if said := p.End(1, 8, nil, now); !strings.Contains(said, "again") || p.Levels[1].Err != "" || p.Levels[1].Last != 8 {
		t.Errorf("%q %+v", said, p.Levels[1])
	}
	if w, ok := p.Wait(now); !ok || w <= 0 {
		t.Error(w)
	}
}

// What fails in the same way with each snapshot is told once, though names of files and snapshots differ; what fails in another way is told.
func TestPlanTellsOnce(t *testing.T) {
	p := NewPlan([]Level{{"far", time.Second}}, t0)
	for i, c := range []struct {
		why  string
		told bool
	}{
		{"from mem: node n2: rank-00001.img: write /far/2c71913e-d72c/82990c3d/8/rank-00001.img.afdc6aff.part: no space left on device", true},
		{"from mem: node n3: rank-00000.img: write /far/2c71913e-d72c/82990c3d/12/rank-00000.img.00c1aa09.part: no space left on device", false},
		{"from mem: node n3: rank-00000.img: write /far/2c71913e-d72c/82990c3d/13/rank-00000.img.11c1aa09.part: input/output error", true},
	} {
		p.Begin(0, at(10*i))
		if said := p.End(0, 8+i, errors.New(c.why), at(10*i+1)); (said != "") != c.told {
			t.Errorf("%s: said %q", c.why, said)
		}
		if p.Levels[0].Err != c.why {
			t.Errorf("the newest reason is %q", p.Levels[0].Err)
		}
	}
}

// An interval may change while the job runs, and a level may get no more.
func TestPlanSetEvery(t *testing.T) {
	p := NewPlan([]Level{{"node", 0}, {"dir", 0}}, t0)
	if _, ok := p.Next(all(1), at(1000)); ok {
		t.Error("a level without an interval gets a copy")
	}
	if w, ok := p.Wait(at(0)); ok {
		t.Errorf("waits %v for no level", w)
	}
	p.SetEvery(1, 20*time.Second)
	if w, ok := p.Wait(at(5)); !ok || w != 15*time.Second {
		t.Error(w, ok)
	}
	if level, ok := p.Next(all(1), at(20)); !ok || level != 1 {
		t.Error(level, ok)
	}
	p.Begin(1, at(30))
	p.End(1, 1, nil, at(31))
	p.SetEvery(1, 5*time.Second)
	if level, ok := p.Next(all(2), at(35)); !ok || level != 1 {
		t.Error("the new interval does not count from the newest copy")
	}
	p.SetEvery(1, 0)
	if _, ok := p.Next(all(2), at(35)); ok {
		t.Error("a level that was given up gets a copy")
	}
}
