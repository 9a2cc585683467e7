package fifo

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l List[int]
		var want []int
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if n := rapid.IntRange(-5, 3).Draw(t, "n"); n > 0 {
				v := rapid.Int().Draw(t, "v")
				l.Append(v)
				want = append(want, v)
			} else {
				n = min(-n, len(want))
				l.Drop(n)
				want = want[n:]
			}
			if l.Len() != len(want) || !slices.Equal(l.Elements(), want) {
				t.Fatalf("%v, want %v", l.Elements(), want)
			}
		}
	})
}

func TestGarbage(t *testing.T) {
	var l List[int]
	step := func() {
		for i := range 7 {
			l.Append(i)
		}
		l.Drop(3)
		l.Drop(4)
	}
	step()
	if n := testing.AllocsPerRun(100, step); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
