package snapshot

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/internal/system/alive"
)

// here is a head of this machine that lives.
func here() Claimant { return Claimant{Host: "here", Lease: 15000, Process: alive.This()} }

// arena is a catalogue with a job.
func arena(t testing.TB) (c *Catalogue, job string) {
	t.Helper()
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c, uuid.NewString()
}

func claimed(t testing.TB, c *Catalogue, job string, by Claimant) *Claim {
	t.Helper()
	own, err := c.Claim(job, by)
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func look(t testing.TB, x *Contest, now time.Time) Round {
	t.Helper()
	r, err := x.Look(now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestContestOrders has two and three heads, of one machine or of several, go through the steps of a contest in every order that is drawn:
// never do two hold the job, and when all are over one does.
func TestContestOrders(t *testing.T) {
	c, _ := arena(t)
	rapid.Check(t, func(rt *rapid.T) {
		job, clock := uuid.NewString(), time.Now()
		apart := rapid.Bool().Draw(rt, "apart")
		type contender struct {
			by    Claimant
			own   *Claim
			x     *Contest
			clear bool // its last look found nobody
			held  bool
			over  bool
		}
		all := make([]*contender, rapid.IntRange(2, 3).Draw(rt, "heads"))
		for i := range all {
			all[i] = &contender{by: here()}
			if apart {
				all[i].by.Machine = fmt.Sprint("machine ", i)
			}
		}
		held := 0
		move := func(h *contender) {
			switch {
			case h.over:
			case h.own == nil:
				h.own = claimed(t, c, job, h.by)
				h.x = h.own.Contest(false)
			case h.clear:
				if err := h.own.Hold(); err != nil {
					rt.Fatal(err)
				}
				h.held, h.over = true, true
				if held++; held > 1 {
					rt.Fatal("two heads have the job")
				}
			default:
				r := look(t, h.x, clock)
				if len(r.Rivals) > 0 {
					if err := h.own.Close(); err != nil {
						rt.Fatal(err)
					}
					h.over = true
				}
				h.clear = len(r.Rivals) == 0 && r.Wait == 0
			}
		}
		step := func(h *contender) {
			clock = clock.Add(ClaimEvery / 4)
			move(h)
			for _, o := range all { // who lives touches its claim
				if o.own != nil && (o.held || !o.over) {
					if err := os.Chtimes(o.own.path, clock, clock); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
		for range rapid.IntRange(0, 12).Draw(rt, "steps") {
			step(rapid.SampledFrom(all).Draw(rt, "head"))
		}
		for range 10 {
			for _, h := range all {
				step(h)
			}
		}
		for i, h := range all {
			if !h.over {
				rt.Fatalf("head %d neither has the job nor gives it up", i)
			}
		}
		if held != 1 {
			rt.Fatalf("%d heads have the job", held)
		}
	})
}

// TestContestAtOnce is the same with goroutines.
func TestContestAtOnce(t *testing.T) {
	c, _ := arena(t)
	for range 20 {
		job := uuid.NewString()
		var wg sync.WaitGroup
		won := make(chan *Claim, 8)
		for range cap(won) {
			wg.Go(func() {
				own, err := c.Claim(job, here())
				if err != nil {
					t.Error(err)
					return
				}
				rival, err := own.Contest(false).Win(0, nil)
				switch {
				case err != nil:
					t.Error(err)
				case rival == nil:
					won <- own
				default:
					if err := own.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d heads have the job", len(won))
		}
		if err := (<-won).Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.JobDir(job)); !errors.Is(err, os.ErrNotExist) {
			t.Error("a job's folder without a snapshot stays:", err)
		}
	}
}

// TestContestWith: whose claim is in the way, and for how long.
func TestContestWith(t *testing.T) {
	other := here()
	other.Machine = "another"
	dead := here()
	dead.Start--
	now := time.Now()
	for _, x := range []struct {
		name  string
		by    Claimant
		age   time.Duration // of the claim
		held  bool
		stops bool
		after time.Duration // a second look
		moves bool          // it is touched before that
		rival bool          // it has the job
		takes bool          // it is over
	}{
		{name: "lives here", by: here(), held: true, age: time.Hour, rival: true},
		{name: "dead here", by: dead, held: true, takes: true},
		{name: "elsewhere, not seen to move", by: other, held: true, after: 10 * time.Second},
		{name: "elsewhere, moves", by: other, held: true, after: time.Second, moves: true, rival: true},
		{name: "elsewhere, long silent", by: other, held: true, age: 20 * time.Second, takes: true},
		{name: "elsewhere, silent while we look", by: other, held: true, after: 20 * time.Second, takes: true},
		{name: "elsewhere, suspended", by: other, held: true, age: time.Hour, stops: true, rival: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, job := arena(t)
			o := claimed(t, c, job, x.by)
			if x.held {
				if err := o.Hold(); err != nil {
					t.Fatal(err)
				}
			}
			if x.stops {
				goOn, err := o.Stop()
				if err != nil {
					t.Fatal(err)
				}
				defer goOn()
			}
			touch := func(at time.Time) {
				if err := os.Chtimes(o.path, at, at); err != nil {
					t.Fatal(err)
				}
			}
			touch(now.Add(-x.age))
			own := claimed(t, c, job, here())
			k := own.Contest(false)
			r := look(t, k, now)
			if x.after > 0 {
				if len(r.Rivals) > 0 || r.Wait == 0 {
					t.Errorf("at first sight: %+v", r)
				}
				if x.moves {
					touch(now.Add(time.Second))
				}
				r = look(t, k, now.Add(x.after))
			}
			_, err := os.Stat(o.path)
			if got := len(r.Rivals) == 1; got != x.rival {
				t.Errorf("rivals: %+v", r)
			}
			if got := os.IsNotExist(err); got != x.takes {
				t.Errorf("taken: %v, %+v", got, r)
			}
			if free := r.Wait == 0; free != x.takes {
				t.Errorf("look again in %v", r.Wait)
			}
			if _, err := os.Stat(mark(o.path, heldSuffix)); x.takes && !os.IsNotExist(err) {
				t.Error("a mark stays without its claim:", err)
			}
		})
	}
}

// TestContestAwait: a head that is to follow another waits for its end.
func TestContestAwait(t *testing.T) {
	c, job := arena(t)
	first := claimed(t, c, job, here())
	if err := first.Hold(); err != nil {
		t.Fatal(err)
	}
	own := claimed(t, c, job, here())
	if rival, err := own.Contest(false).Win(0, nil); err != nil || rival == nil || rival.PID != os.Getpid() {
		t.Errorf("%v, %v", rival, err)
	}
	done := make(chan error, 1)
	go func() {
		rival, err := own.Contest(false).Win(time.Minute, nil)
		if rival != nil {
			err = fmt.Errorf("not waited for: %v", rival)
		}
		done <- err
	}()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestContestLine: jobs that one line of a script has begun are one job, whatever their ids.
func TestContestLine(t *testing.T) {
	c, job := arena(t)
	by := here()
	by.Line = "a"
	first := claimed(t, c, job, by)
	if err := first.Hold(); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{"a": 1, "b": 0} {
		by.Line = line
		own := claimed(t, c, uuid.NewString(), by)
		if r := look(t, own.Contest(true), time.Now()); len(r.Rivals) != want {
			t.Errorf("line %s: %+v", line, r)
		}
		if r := look(t, own.Contest(false), time.Now()); len(r.Rivals) != 0 {
			t.Errorf("a job of its own: %+v", r)
		}
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	}
	if r := look(t, c.Watch(job), time.Now()); len(r.Rivals) != 1 {
		t.Errorf("by who only reads: %+v", r)
	}
}

// TestSweepClaims: what a head that was killed has left goes with the next sweep, and that of the living stays.
func TestSweepClaims(t *testing.T) {
	c, job := arena(t)
	dead := here()
	dead.Start--
	claimed(t, c, job, dead)
	if _, err := c.Sweep(job); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.JobDir(job)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder of a head that died before its first snapshot stays:", err)
	}
	own := claimed(t, c, job, here())
	if _, err := c.Sweep(job); err != nil {
		t.Fatal(err)
	}
	if err := own.Touch(); err != nil {
		t.Error("swept:", err)
	}
}
