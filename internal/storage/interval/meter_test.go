package interval

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A rank of k threads that compute all the time gets a share of what it wants, and less while something else goes on. What it then does not
// do is what the meter says, whatever its share was before.
func TestMeter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 16).Draw(t, "threads")
		usual := rapid.Float64Range(.05, 1).Draw(t, "usual")
		left := rapid.Float64Range(.05, 1).Draw(t, "left") * usual
		inKernel := rapid.Float64Range(0, 1).Draw(t, "in the kernel")
		use := func(span time.Duration, share float64) Use {
			want := float64(k) * span.Seconds()
			lost := want * (1 - share)
			return Use{Run: seconds(want*share + lost*inKernel), System: seconds(lost * inKernel), Wait: seconds(lost * (1 - inKernel))}
		}
		var m Meter
		if _, known := m.Add(Behind, use(time.Second, left), time.Second); known {
			t.Fatal("it knows what is lost before it knows the rank")
		}
		m.Add(Quiet, use(10*time.Second, usual), 10*time.Second)
		for _, p := range []Phase{Behind, Copying} {
			got, known := m.Add(p, use(time.Second, left), time.Second)
			if want := 1 - left/usual; !known || math.Abs(got.Seconds()-want) > 1e-3 {
				t.Fatalf("lost %v, %v, want %v s", got, known, want)
			}
		}
		if lost, _ := m.Add(Still, use(time.Second, left), time.Second); lost != 0 {
			t.Fatalf("%v lost while the rank stood", lost)
		}
	})
}

// A rank that sleeps loses only what it waits for. Habits change: old spans count less.
func TestMeterHabit(t *testing.T) {
	var m Meter
	m.Add(Quiet, Use{Run: 100 * time.Millisecond}, time.Second)
	if lost, _ := m.Add(Behind, Use{Run: 100 * time.Millisecond, Wait: 30 * time.Millisecond}, time.Second); lost != 30*time.Millisecond {
		t.Errorf("a rank that mostly sleeps has lost %v", lost)
	}
	if lost, known := m.Add(Behind, Use{}, time.Second); lost != 0 || !known {
		t.Errorf("a rank that sleeps has lost %v, %v", lost, known)
	}
	crowded := Use{Run: time.Second, Wait: time.Second}
	for range 10 {
		m.Add(Quiet, crowded, 2*time.Second)
	}
	if lost, _ := m.Add(Behind, crowded, 2*time.Second); lost > 5*time.Millisecond {
		t.Errorf("a rank that always waits as long has lost %v", lost)
	}
	if lost, _ := m.Add(Copying, Use{Wait: time.Hour}, time.Second); lost != time.Second {
		t.Errorf("%v lost within a second", lost)
	}
}

// What a job loses is at least what each of its nodes does, at most the sum, and no more than there was.
func TestTogether(t *testing.T) {
	half := Together{Span: time.Second}
	half.Add(time.Second / 2)
	half.Add(time.Second / 2)
	if got := half.Lost(); got != 750*time.Millisecond {
		t.Errorf("two nodes that lose half are a job that loses %v a second", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		all := Together{Span: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "span"))}
		var most, sum time.Duration
		for _, n := range rapid.SliceOfN(rapid.Int64Range(0, int64(2*time.Hour)), 1, 20).Draw(t, "lost") {
			lost := min(time.Duration(n), all.Span)
			all.Add(time.Duration(n))
			most, sum = max(most, lost), sum+lost
		}
		const rounding = time.Microsecond
		if got := all.Lost(); got < most-rounding || got > min(sum, all.Span)+rounding {
			t.Fatalf("%v of %v; most %v, sum %v", got, all.Span, most, sum)
		}
	})
}
