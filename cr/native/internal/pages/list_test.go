package pages

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestList: what is written is read again.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l List
		var want []Run
		data := 0
		for at := 0; ; {
			at += rapid.IntRange(0, 300).Draw(t, "gap")
			n := rapid.IntRange(1, 300).Draw(t, "pages")
			if at+n > PerWindow {
				break
			}
			r := Run{Kind: rapid.SampledFrom([]byte{Data, Zero, Base}).Draw(t, "kind"), First: at, N: n}
			if r.Kind == Data {
				r.Data = data
				data += n
			}
			l.Add(r.Kind, at, n)
			if k := len(want) - 1; k >= 0 && want[k].Kind == r.Kind && want[k].First+want[k].N == at {
				want[k].N += n
			} else {
				want = append(want, r)
			}
			at += n
		}
		got, n, err := ParseRuns(l.String())
		if err != nil || n != data || !slices.Equal(got, want) {
			t.Fatalf("%v with %d pages of data, %v; want %v with %d", got, n, err, want, data)
		}
	})
}
