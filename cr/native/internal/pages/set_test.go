package pages

import (
	"math/rand/v2"
	"testing"
)

func TestPageSets(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var set Set
		var want [PerWindow]bool
		for range 10 {
			first := r.IntN(PerWindow)
			last, in := first+r.IntN(PerWindow-first+1), r.IntN(2) == 0
			set.Fill(first, last, in)
			for i := first; i < last; i++ {
				want[i] = in
			}
		}
		for i := range want {
			if set.Has(i) != want[i] {
				t.Fatalf("page %d", i)
			}
		}
	}
}
