package standstill

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// draw makes a job of few ranks, in which each does something, is in Finalize or waits for what comes to mind.
func draw(t *rapid.T) []Rank {
	n := rapid.IntRange(1, 6).Draw(t, "ranks")
	ranks := make([]Rank, n)
	for i := range ranks {
		r := &ranks[i]
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			r.Moves = true
		case 1:
			r.Ended = true
		}
		least := 1
		if r.Moves || r.Ended {
			least = 0
		}
		for range rapid.IntRange(least, 2).Draw(t, "waits") {
			w := Wait{Text: fmt.Sprintf("at f:%d", i), Free: rapid.IntRange(0, 15).Draw(t, "free") == 0, Any: rapid.IntRange(0, 5).Draw(t, "any") == 0}
			w.Needs = rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, n-1), 1, 3), 1, 2).Draw(t, "needs")
			r.Waits = append(r.Waits, w)
		}
	}
	return ranks
}

// judge looks at every set of ranks. Those of a set stand still for good if none does anything and none of their waits can be ended
// by ranks outside. A rank in no such set goes on.
func judge(ranks []Rank) []bool {
	stuck := make([]bool, len(ranks))
	for set := 1; set < 1<<len(ranks); set++ {
		in := func(r int) bool { return set>>r&1 != 0 }
		if closed(ranks, in) {
			for r := range ranks {
				stuck[r] = stuck[r] || in(r)
			}
		}
	}
	return stuck
}

func closed(ranks []Rank, in func(int) bool) bool {
	for r := range ranks {
		if !in(r) {
			continue
		}
		if ranks[r].Moves {
			return false
		}
		for _, w := range ranks[r].Waits {
			if w.Free {
				return false
			}
			for other := range ranks {
				if w.Any && !in(other) {
					return false
				}
			}
			for _, need := range w.Needs {
				if !slices.ContainsFunc(need, in) {
					return false
				}
			}
		}
	}
	return true
}

// Stuck says what a judge says who tries all sets of ranks.
func TestStuck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := draw(t)
		if got, want := Stuck(ranks), judge(ranks); !slices.Equal(got, want) {
			t.Fatalf("stuck %v, want %v: %+v", got, want, ranks)
		}
	})
}

// A report names only ranks that are stuck, has a line for each that these wait for, and is there if and only if somebody waits for ever.
func TestReport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := draw(t)
		stuck := judge(ranks)
		waits := false
		for r := range ranks {
			waits = waits || stuck[r] && len(ranks[r].Waits) > 0
		}
		lines := Report(ranks)
		if waits != (lines != nil) {
			t.Fatalf("stuck %v, report %q: %+v", stuck, lines, ranks)
		}
		if lines == nil {
			return
		}
		first := 0
		for first < len(ranks) && (!stuck[first] || len(ranks[first].Waits) == 0) {
			first++
		}
		named := map[int]bool{}
		steps := walk(ranks, stuck, first)
		for _, s := range steps {
			if named[s.rank] || !stuck[s.rank] {
				t.Fatalf("rank %d is told twice, or goes on: %q", s.rank, lines)
			}
			named[s.rank] = true
		}
		for _, s := range steps {
			for _, on := range s.on {
				if !named[on] {
					t.Fatalf("rank %d waits for %d, of which there is no line: %q", s.rank, on, lines)
				}
			}
		}
	})
}

// The words.
func TestReportWords(t *testing.T) {
	on := func(rank int, text string) Wait { return Wait{Needs: [][]int{{rank}}, Text: text} }
	for _, c := range []struct {
		what  string
		ranks []Rank
		want  string
	}{
		{"a cycle, and one that waits for it", []Rank{{Waits: []Wait{on(1, "at f:1")}}, {Waits: []Wait{on(3, "at f:2")}}, {Moves: true}, {Waits: []Wait{on(1, "at f:3")}}},
			"rank 1 waits for 3 at f:2\nrank 3 waits for 1 at f:3"},
		{"for itself", []Rank{{Waits: []Wait{on(0, "at f:1")}}}, "rank 0 waits for 0 at f:1"},
		{"any source, and nobody sends", []Rank{{Waits: []Wait{{Any: true, Text: "at f:1"}}}, {Waits: []Wait{on(0, "at f:2")}}},
			"rank 0 waits for any rank at f:1\nrank 1 waits for 0 at f:2"},
		{"any source, and one computes", []Rank{{Waits: []Wait{{Any: true}}}, {Waits: []Wait{on(0, "")}}, {Moves: true}}, ""},
		{"a rank that has ended", []Rank{{Waits: []Wait{on(1, "at f:1")}}, {Ended: true}}, "rank 0 waits for 1 at f:1\nrank 1 is in Finalize: it sends and receives nothing any more"},
		{"the end of a job", []Rank{{Ended: true}, {Ended: true}}, ""},
		{"one of two", []Rank{{Waits: []Wait{{Needs: [][]int{{1}, {2}}, Text: "at f:1"}}}, {Waits: []Wait{on(0, "at f:2")}}, {Waits: []Wait{on(0, "at f:3")}}},
			"rank 0 waits for one of ranks 1-2 at f:1\nrank 1 waits for 0 at f:2\nrank 2 waits for 0 at f:3"},
	} {
		if got := strings.Join(Report(c.ranks), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
