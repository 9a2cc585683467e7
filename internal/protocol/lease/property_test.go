package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestNoneActsFenced lets a holder and a granter talk over a link that loses, delays,
// doubles and reorders, with clocks that differ by up to one per cent and stand anywhere,
// and with pauses of both. When the granter's clock comes to FencedAt, the holder must
// have ended, and nothing that arrives later may bring it back.
func TestNoneActsFenced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		if err := newWorld(draw, none).run(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSeeds is TestNoneActsFenced over many more, plainly random schedules.
func TestSeeds(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 2000
	}
	var fenced, granted, killed int
	for seed := range uint64(n) {
		w := newWorld(seeded(seed), none)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		fenced++
		granted += w.grants
		if w.killed {
			killed++
		}
	}
	if granted < 3*n || killed < n/2 {
		t.Errorf("%d runs, %d grants, %d holders whose lease ran out: that tests little", fenced, granted, killed)
	}
}

// TestMutants breaks one rule after the other. Each must let a holder act too late.
func TestMutants(t *testing.T) {
	const within = 20_000
	for m := none + 1; m < mutants; m++ {
		t.Run(mutantNames[m], func(t *testing.T) {
			for seed := range uint64(within) {
				if err := newWorld(seeded(seed), m).run(); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Fatalf("not caught by %d seeds", within)
		})
	}
}

func seeded(seed uint64) func(string, int) int {
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(_ string, n int) int { return rng.IntN(n) }
}

// world is a holder, a granter, their clocks and what is between them, in true time.
type world struct {
	draw    func(what string, n int) int
	terms   Terms
	now     int64 // true time, microseconds
	hc, gc  clock
	holder  holderRules
	granter granterRules
	asks    []int64 // under way, or to come once more
	answers []int64

	acting   bool  // the holder's process exists
	settle   int64 // microseconds from the end of its lease to the end of all that acts
	actedTo  int64 // true time until which something of it acted
	killed   bool
	lost     bool  // the granter has said so
	fencedAt int64 // by its clock, then
	begun    bool  // successors run
	grants   int
}

func newWorld(draw func(string, int) int, m mutant) *world {
	w := &world{draw: draw, acting: true}
	w.terms = []Terms{DefaultTerms, {3 * time.Second, 500 * time.Millisecond}, {2 * time.Minute, 5 * time.Second}}[draw("terms", 3)]
	w.hc, w.gc = w.newClock(), w.newClock()
	w.settle = int64(draw("settle", 2)) * 980_000
	h, g := NewHolder(w.terms), NewGranter(w.terms)
	w.holder, w.granter = m.holder(h, w.hc.read()), m.granter(g)
	return w
}

func (w *world) run() error {
	pace := w.draw("pace", 4)
	for range 20 + w.draw("steps", 200) {
		if err := w.step(pace); err != nil {
			return err
		}
	}
	// What is still under way may come, or not, while the granter gives the holder up.
	for i := w.draw("patience", 100); !w.begun; i-- {
		if i == 0 { // or it would wait for a first ask for ever
			w.granter.End(w.gc.read())
		}
		if err := w.advance(w.pause(1 + w.draw("pace", 3))); err != nil {
			return err
		}
		switch w.draw("late", 4) {
		case 0:
			w.answer()
		case 1:
			w.hear()
		}
		w.look()
	}
	for range len(w.asks) + len(w.answers) + 4 { // the rest comes after that
		w.hear()
		if err := w.answered(); err != nil {
			return err
		}
	}
	return nil
}

// step is one thing that happens. In a quick pace nearly all of it is what a lease lives on.
func (w *world) step(pace int) error {
	switch w.draw("step", 8) {
	case 0, 1:
		return w.advance(w.pause(pace))
	case 2, 3:
		w.ask()
	case 4:
		w.answer()
	case 5:
		w.hear()
	case 6:
		w.look()
	case 7:
		return w.rarely()
	}
	return nil
}

func (w *world) rarely() error {
	switch w.draw("rare", 6) {
	case 0:
		w.asks = drop(w.asks, w.draw)
	case 1:
		w.answers = drop(w.answers, w.draw)
	case 2:
		w.hc.turn(w.draw)
	case 3:
		w.gc.turn(w.draw)
	case 4:
		return w.advance(w.pause(3))
	case 5:
		if w.draw("give up", 8) == 0 {
			w.granter.End(w.gc.read())
			w.look()
		}
	}
	return nil
}

// pause is a span in microseconds: of milliseconds, heartbeats, leases.
func (w *world) pause(pace int) int64 {
	switch pace {
	case 0:
		return int64(w.draw("ms", 20_000))
	case 1:
		return int64(w.draw("beat", int(w.terms.H.Microseconds())))
	case 2:
		return int64(w.draw("some", int(w.terms.L.Microseconds()/4)))
	default:
		return int64(w.draw("long", int(2*w.terms.L.Microseconds())))
	}
}

func (w *world) ask() {
	if w.acting {
		w.asks = append(w.asks, w.holder.Ask(w.hc.read()))
	}
}

// answer lets an ask arrive, any of them, and perhaps not for the last time.
func (w *world) answer() {
	if a, ok := take(&w.asks, w.draw); ok && w.granter.Renew(a, w.gc.read()) {
		w.grants++
		w.answers = append(w.answers, a)
	}
}

// hear lets an answer arrive.
func (w *world) hear() {
	if a, ok := take(&w.answers, w.draw); ok && w.acting {
		w.holder.Granted(a, w.hc.read())
	}
}

// answered is answer and hear, and checks whether the dead have come back by it.
func (w *world) answered() error {
	w.answer()
	w.hear()
	return w.advance(int64(w.draw("gap", 3)) * 500_000)
}

// look is what the granter does all the time.
func (w *world) look() {
	if w.granter.Silent(w.gc.read()) && !w.lost {
		w.lost, w.fencedAt = true, w.granter.FencedAt()
	}
}

// advance lets true time go by. It stops where the holder's lease ends and where the
// granter lets successors run.
func (w *world) advance(d int64) error {
	for end := w.now + d; ; {
		if err := w.due(); err != nil {
			return err
		}
		if w.now >= end {
			return nil
		}
		d := end - w.now
		if w.leased() {
			d = min(d, w.hc.until(w.holder.Until()))
		}
		if w.lost && !w.begun {
			d = min(d, w.gc.until(w.fencedAt))
		}
		w.now += d
		w.hc.now, w.gc.now = w.now, w.now
	}
}

// leased reports whether the holder has a lease that is to run out.
func (w *world) leased() bool { return w.acting && w.holder.Until() != 0 }

// due ends a holder whose lease has run out, and starts successors.
func (w *world) due() error {
	if w.leased() {
		w.actedTo = w.now + w.settle
		if w.hc.read() >= w.holder.Until() {
			w.acting, w.killed = false, true
		}
	}
	if w.lost && !w.begun && w.gc.read() >= w.fencedAt {
		w.begun = true
	}
	if w.begun && w.leased() {
		return fmt.Errorf("at %d us successors run, and the holder has a lease for another %d ms", w.now, w.holder.Until()-w.hc.read())
	}
	if w.begun && w.actedTo > w.now {
		return fmt.Errorf("at %d us successors run, and what the holder has started acts for another %d us", w.now, w.actedTo-w.now)
	}
	return nil
}

// clock is a clock that stood somewhere and goes too fast by 0 to 1 %.
type clock struct {
	now, at, stood int64 // true time; true time and reading when the rate last changed
	rate           int64 // its microseconds in a million true ones
}

func (w *world) newClock() clock {
	c := clock{stood: int64(w.draw("offset", 3)) * 7_200_000_000}
	c.turn(w.draw)
	return c
}

func (c *clock) micros() int64 { return c.stood + (c.now-c.at)*c.rate/1_000_000 }
func (c *clock) read() int64   { return c.micros() / 1000 }

// until returns in how many true microseconds the clock will read ms; 1 at least.
func (c *clock) until(ms int64) int64 {
	return max(((ms*1000-c.stood)*1_000_000+c.rate-1)/c.rate+c.at-c.now, 1)
}

// turn changes the rate.
func (c *clock) turn(draw func(string, int) int) {
	c.stood, c.at = c.micros(), c.now
	c.rate = 1_000_000 + int64([]int{0, 0, 5_000, 10_000, 10_000}[draw("rate", 5)])
}

// take removes one of the values, or leaves it there to be taken once more.
func take(values *[]int64, draw func(string, int) int) (int64, bool) {
	v := *values
	if len(v) == 0 {
		return 0, false
	}
	i := len(v) - 1 // the newest
	if draw("any", 4) == 0 {
		i = draw("which", len(v))
	}
	a := v[i]
	if draw("doubled", 8) != 0 {
		*values = append(v[:i], v[i+1:]...)
	}
	return a, true
}

// drop loses one of the values.
func drop(v []int64, draw func(string, int) int) []int64 {
	if len(v) == 0 {
		return v
	}
	i := draw("lost", len(v))
	return append(v[:i], v[i+1:]...)
}
