package dist

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// anyRows draws rows of some ranks, of which some may have none.
func anyRows(t *rapid.T) Rows {
	n := rapid.IntRange(0, 30).Draw(t, "rows")
	at := rapid.SliceOfN(rapid.IntRange(0, n), 0, 7).Draw(t, "cuts")
	slices.Sort(at)
	return slices.Concat(Rows{0}, at, Rows{n})
}

func TestEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, ranks := rapid.IntRange(0, 1<<40).Draw(t, "n"), rapid.IntRange(1, 300).Draw(t, "ranks")
		r := Even(n, ranks)
		if err := r.check(ranks); err != nil || r.Total() != n {
			t.Fatal(r, err)
		}
		for rank := range ranks {
			if first, end := r.Of(rank); end-first < n/ranks || end-first > n/ranks+1 {
				t.Fatalf("rank %d of %d has %d of %d rows", rank, ranks, end-first, n)
			}
		}
	})
}

func TestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRows(t)
		for row := range r.Total() {
			if first, end := r.Of(r.Rank(row)); row < first || row >= end {
				t.Fatalf("row %d of %v is not rank %d's", row, r, r.Rank(row))
			}
		}
		if r.Rank(-1) != -1 || r.Rank(r.Total()) != -1 {
			t.Fatal("rows that are not there have ranks")
		}
	})
}

// What a rank receives is its halo, each row once, from its owner; and somebody sends exactly that.
func TestHaloMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, width := anyRows(t), rapid.IntRange(0, 12).Draw(t, "width")
		for rank := range len(r) - 1 {
			first, end := r.Of(rank)
			var want, got []int
			for row := max(0, first-width); row < min(r.Total(), end+width) && first < end; row++ {
				if row < first || row >= end {
					want = append(want, row)
				}
			}
			in, _ := r.halo(rank, width)
			for _, m := range in {
				for row := m.first; row < m.end; row++ {
					if got = append(got, row); r.Rank(row) != m.peer {
						t.Fatalf("%v: row %d is not rank %d's", r, row, m.peer)
					}
				}
				_, out := r.halo(m.peer, width)
				if back := (message{rank, m.first, m.end}); !slices.Contains(out, back) {
					t.Fatalf("%v: rank %d sends %v, not %v", r, m.peer, out, back)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%v: the halo of rank %d is %v, and %v comes", r, rank, want, got)
			}
		}
	})
}

func TestRowsRefused(t *testing.T) {
	for _, r := range []Rows{nil, {0}, {0, 1}, {1, 2, 3}, {0, 2, 1}} {
		if r.check(2) == nil {
			t.Errorf("%v for 2 ranks", r)
		}
	}
}
