package device

import (
	"testing"

	"pgregory.net/rapid"
)

// Sets of rows behave as sets of numbers, and keep their form.
func TestRowsAreSets(t *testing.T) {
	const most = 12
	rapid.Check(t, func(t *rapid.T) {
		var r rows
		var model [most]bool
		draw := func() span {
			from := rapid.IntRange(0, most).Draw(t, "from")
			return span{from, rapid.IntRange(from, most).Draw(t, "to")}
		}
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			s, add := draw(), rapid.Bool().Draw(t, "add")
			if add {
				r = r.with(s)
			} else {
				r = r.without(s)
			}
			for i := s.from; i < s.to; i++ {
				model[i] = add
			}
			for i := range r {
				if r[i].empty() || i > 0 && r[i-1].to >= r[i].from {
					t.Fatalf("%v is not in order", r)
				}
			}
			window := draw()
			in, out := r.within(window), r.lacks(window)
			for i := range model {
				inside := i >= window.from && i < window.to
				if has(r, i) != model[i] || has(in, i) != (inside && model[i]) || has(out, i) != (inside && !model[i]) {
					t.Fatalf("%v within %v: %v, lacks %v; the model has %v", r, window, in, out, model)
				}
			}
		}
	})
}

func has(r rows, i int) bool {
	for _, s := range r {
		if s.from <= i && i < s.to {
			return true
		}
	}
	return false
}
