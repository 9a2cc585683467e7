package share

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestDecide names the cases of the rule. Times are in ms, the device has 100 bytes.
func TestDecide(t *testing.T) {
	const now = 5000
	seat := func(name string, held, need int64, change ...func(*Seat)) Seat {
		s := Seat{Name: name, Device: "0", Memory: 100, Held: held, Need: need, Since: 100 * time.Millisecond, In: 4900 * time.Millisecond}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	at := func(field func(*Seat) *time.Duration, ms time.Duration) func(*Seat) {
		return func(s *Seat) { *field(s) = ms * time.Millisecond }
	}
	since := func(s *Seat) *time.Duration { return &s.Since }
	in := func(s *Seat) *time.Duration { return &s.In }
	idle := func(s *Seat) *time.Duration { return &s.Idle }
	swap := func(s *Seat) *time.Duration { return &s.Swap }
	leaving := func(s *Seat) { s.Leaving = true }
	elsewhere := func(s *Seat) { s.Device = "1" }
	unknown := func(s *Seat) { s.Memory = 0 }
	for _, c := range []struct {
		name string
		all  []Seat
		want Verdict
	}{
		{"nobody waits", []Seat{seat("a", 70, 70), seat("b", 0, 0)}, Verdict{}},
		{"there is room", []Seat{seat("a", 70, 70), seat("b", 0, 30)}, Verdict{Grant: "b"}},
		{"it waits on another device", []Seat{seat("a", 70, 70), seat("b", 0, 30, elsewhere)}, Verdict{}},
		{"the first one gets it", []Seat{seat("a", 0, 70, at(since, 200)), seat("b", 0, 70, at(since, 150))}, Verdict{Grant: "b"}},
		{"nobody overtakes", []Seat{seat("a", 60, 60), seat("b", 0, 70), seat("c", 0, 10, at(since, 200))}, Verdict{Again: 5900 * time.Millisecond}},
		{"who holds something gets more", []Seat{seat("a", 60, 70, at(since, 300)), seat("b", 0, 70)}, Verdict{Grant: "a"}},
		{"but not what is not there", []Seat{seat("a", 60, 100, at(since, 300)), seat("b", 0, 70), seat("c", 10, 10)}, Verdict{Leave: []string{"a"}}},
		{"more than there is", []Seat{seat("a", 10, 10), seat("b", 0, 101)}, Verdict{Refuse: "b"}},
		{"who has had his quantum leaves", []Seat{seat("a", 70, 70, at(in, 3900)), seat("b", 0, 70)}, Verdict{Leave: []string{"a"}}},
		{"a quantum is 20 swaps", []Seat{seat("a", 70, 70, at(in, 3900), at(swap, 100)), seat("b", 0, 70)}, Verdict{Again: 5900 * time.Millisecond}},
		{"who is idle leaves", []Seat{seat("a", 70, 70, at(idle, 4500)), seat("b", 0, 70)}, Verdict{Leave: []string{"a"}}},
		{"not at once", []Seat{seat("a", 70, 70, at(idle, 4990)), seat("b", 0, 70)}, Verdict{Again: 5490 * time.Millisecond}},
		{"as long as its swap takes", []Seat{seat("a", 70, 70, at(idle, 4000), at(swap, 1500)), seat("b", 0, 70)}, Verdict{Again: 5500 * time.Millisecond}},
		{"who waits himself leaves first", []Seat{seat("a", 40, 40, at(idle, 1000)), seat("b", 40, 70, at(since, 200)), seat("c", 0, 40)}, Verdict{Leave: []string{"b"}}},
		{"of two who wait for more the later one leaves", []Seat{seat("a", 50, 60), seat("b", 50, 60, at(since, 200))}, Verdict{Leave: []string{"b"}}},
		{"the idle one before the busy one", []Seat{seat("a", 40, 40, at(in, 1000)), seat("b", 40, 40, at(idle, 4000)), seat("c", 0, 60)}, Verdict{Leave: []string{"b"}}},
		{"both if both are needed", []Seat{seat("a", 40, 40, at(in, 1000)), seat("b", 40, 40, at(idle, 4000)), seat("c", 0, 100)}, Verdict{Leave: []string{"b", "a"}}},
		{"none before all may", []Seat{seat("a", 40, 40), seat("b", 40, 40, at(idle, 4000)), seat("c", 0, 100)}, Verdict{Again: 5900 * time.Millisecond}},
		{"one leaves already", []Seat{seat("a", 40, 40, leaving), seat("b", 40, 40, at(idle, 4000)), seat("c", 0, 60)}, Verdict{}},
		{"it leaves, and wants more", []Seat{seat("a", 40, 60, leaving)}, Verdict{}},
		{"an unknown device", []Seat{seat("a", 0, 70, unknown)}, Verdict{Grant: "a"}},
		{"another has something on it", []Seat{seat("a", 0, 70, unknown), seat("b", 1, 1, unknown, at(in, 1000))}, Verdict{Leave: []string{"b"}}},
		{"it is known to another", []Seat{seat("a", 0, 70, unknown), seat("b", 31, 31, at(in, 1000))}, Verdict{Leave: []string{"b"}}},
	} {
		got := Decide(now*time.Millisecond, "0", c.all)
		if got.Grant != c.want.Grant || got.Refuse != c.want.Refuse || !slices.Equal(got.Leave, c.want.Leave) || got.Again != c.want.Again {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestTurns lets processes of all kinds use a device for a long time. Never is more held than there is; the one that waits longest and fits is granted at once; whoever waits gets it
// before so much time has passed as all others need for a quantum and a swap each; and there is always somebody whose turn it is, or a time when it is.
func TestTurns(t *testing.T) {
	for seed := range uint64(300) {
		w := newTurns(seed)
		for range 2000 {
			if err := w.step(); err != nil {
				t.Fatalf("seed %d, at %v: %v\n%+v", seed, w.now, err, w.all)
			}
		}
		if w.grants < 20 || w.left == 0 && w.tight {
			t.Fatalf("seed %d: %d grants, %d have left", seed, w.grants, w.left)
		}
	}
}

// turns is a device and its processes.
type turns struct {
	r            *rand.Rand
	now          time.Duration
	all          []Seat
	until        []time.Duration // when each is out, if it leaves
	hog          bool            // processes are never idle
	tight        bool            // not all fit
	grants, left int
}

func newTurns(seed uint64) *turns {
	r := rand.New(rand.NewPCG(seed, 18))
	w := &turns{r: r, now: time.Hour, hog: r.IntN(2) == 0}
	n := 2 + r.IntN(5)
	w.until = make([]time.Duration, n)
	for i := range n {
		w.all = append(w.all, Seat{Name: fmt.Sprint(i), Device: "0", Memory: 100, Swap: time.Duration(r.IntN(200)) * time.Millisecond})
	}
	return w
}

// step lets some time pass, in which processes want something, and follows the verdict.
func (w *turns) step() error {
	w.now += time.Duration(1+w.r.IntN(60)) * time.Millisecond
	total := int64(0)
	for i := range w.all {
		s := &w.all[i]
		if s.Leaving && w.now >= w.until[i] {
			if !s.Waits() {
				s.Need = 0
			}
			s.Leaving, s.Held, s.Idle = false, 0, 0
			w.left++
		}
		w.wants(s)
		total += s.Need
	}
	w.tight = w.tight || total > 150
	v := Decide(w.now, "0", w.all)
	var first *Seat
	held, leaving, longest := int64(0), false, time.Duration(0)
	for i := range w.all {
		s := &w.all[i]
		if s.Waits() && (first == nil || s.Since < first.Since) {
			first = s
		}
		held += s.Held
		leaving = leaving || s.Leaving
		longest += s.Quantum() + swapTime + 200*time.Millisecond
	}
	if first == nil {
		return nil
	}
	switch {
	case v.Refuse != "":
		return fmt.Errorf("%s is refused", v.Refuse)
	case v.Grant == "" && held-first.Held+first.Need <= 100 && !first.Leaving:
		return fmt.Errorf("there is room for %s, and it waits", first.Name)
	case v.Grant == "" && len(v.Leave) == 0 && v.Again <= w.now && !leaving:
		return fmt.Errorf("it is nobody's turn: %+v", v)
	case w.now-first.Since > longest:
		return fmt.Errorf("%s has waited for %v", first.Name, w.now-first.Since)
	}
	for i := range w.all {
		s := &w.all[i]
		if v.Grant == s.Name {
			if s.Held == 0 {
				s.In = w.now
			}
			s.Held, s.Since, s.Idle = s.Need, 0, 0
			w.grants++
		}
		if slices.Contains(v.Leave, s.Name) {
			if s.Leaving || s.Held == 0 {
				return fmt.Errorf("%s is to leave, and holds nothing", s.Name)
			}
			s.Leaving = true
			w.until[i] = w.now + time.Duration(w.r.Int64N(int64(swapTime)))
		}
	}
	held = 0
	for _, s := range w.all {
		held += s.Held
	}
	if held > 100 {
		return fmt.Errorf("%d of 100 bytes are held", held)
	}
	return nil
}

const swapTime = 300 * time.Millisecond

// wants makes a process want memory, have nothing to do, or free something.
func (w *turns) wants(s *Seat) {
	switch {
	case s.Leaving, s.Waits():
	case s.Held == 0 && w.r.IntN(4) == 0:
		s.Need, s.Since = 1+w.r.Int64N(100), w.now
	case s.Held == 0:
	case w.r.IntN(10) == 0 && s.Held < 100:
		s.Need, s.Since = s.Held+1+w.r.Int64N(100-s.Held), w.now
	case w.r.IntN(20) == 0:
		s.Held /= 2
		s.Need = s.Held
	case w.hog || w.r.IntN(3) > 0:
		s.Idle = 0
	case s.Idle == 0:
		s.Idle = w.now
	}
}
