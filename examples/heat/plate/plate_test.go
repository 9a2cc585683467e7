package plate

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// serial is the same scheme on one array: the reference.
func serial(n, steps int) []float64 {
	w := n + 2
	now, next := make([]float64, w*w), make([]float64, w*w)
	for j := 1; j <= n; j++ {
		now[j], next[j] = Hot, Hot
	}
	for range steps {
		for i := 1; i <= n; i++ {
			for j := 1; j <= n; j++ {
				k := i*w + j
				around := (now[k-w] + now[k+w]) + (now[k-1] + now[k+1])
				next[k] = now[k] + float64(Diffusion*(around-float64(4*now[k])))
			}
		}
		now, next = next, now
	}
	field := make([]float64, 0, n*n)
	for i := 1; i <= n; i++ {
		field = append(field, now[i*w+1:i*w+1+n]...)
	}
	return field
}

// Any number of parts computes the same bits as the serial scheme.
func TestPlate(t *testing.T) {
	const n, steps = 21, 200
	want := serial(n, steps)
	for _, size := range []int{1, 2, 3, 5, 8, 12, 21} {
		all := make([]*Plate, size)
		for rank := range all {
			var err error
			if all[rank], err = New(n, size, rank); err != nil {
				t.Fatal(err)
			}
		}
		for range steps {
			for _, p := range all {
				for d := range Directions {
					if neighbour := p.Neighbours[d]; neighbour != Nobody {
						copy(p.Frame(d), all[neighbour].Edge(d.Opposite()))
					}
				}
				p.Framed()
			}
			for _, p := range all {
				p.Step()
			}
		}
		field := make([]float64, n*n)
		for _, p := range all {
			p.Put(field, n, p.Own())
		}
		if !slices.Equal(field, want) {
			t.Errorf("%d parts: another result", size)
		}
	}
}

// In the end the plate is in the balance that follows from symmetry: four
// plates, each heated at another edge, add up to one at 100 degrees
// everywhere, so that the middle is at 25.
func TestSteadyState(t *testing.T) {
	if v := serial(9, 5000)[4*9+4]; math.Abs(v-25) > 1e-9 {
		t.Errorf("the middle is at %g degrees, want 25", v)
	}
}

func TestTooManyRanks(t *testing.T) {
	if _, err := New(2, 3, 0); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("a plate of 2 x 2 for 1 x 3 ranks: %v", err)
	}
}

func TestArrange(t *testing.T) {
	for size, want := range map[int]grid{1: {1, 1}, 2: {1, 2}, 7: {1, 7}, 12: {3, 4}, 16: {4, 4}, 64: {8, 8}} {
		if got := arrange(size); got != want {
			t.Errorf("%d ranks: %v, want %v", size, got, want)
		}
	}
}
