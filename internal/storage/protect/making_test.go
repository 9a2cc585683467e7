package protect

import (
	"fmt"
	"testing"
)

// Shards of a group are due when all its images are written, once; what is lost or missing is told by what was made.
func TestMaking(t *testing.T) {
	p := Placement{Nodes: []Node{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Of: []int{0, 1, 2}}
	groups := []Group{{Ranks: []int{0, 1}, Shards: []int{2}}, {Ranks: []int{2}, Shards: []int{0, 1}}}
	m := NewMaking(3, groups)
	down := func(nodes ...int) func(int) bool {
		return func(n int) bool {
			for _, d := range nodes {
				if n == d {
					return true
				}
			}
			return false
		}
	}
	var due []int
	for _, rank := range []int{0, 2, 0, 1, 1, 2} {
		if g, ready := m.Wrote(rank); ready {
			due = append(due, g)
		}
	}
	if fmt.Sprint(due) != "[1 0]" {
		t.Errorf("due are %v", due)
	}
	m.Made(0, 0)
	m.Made(1, 1)
	for _, c := range []struct {
		down  []int
		lost  string
		lacks string
	}{
		{nil, "[]", "[{1 0 false}]"},
		{[]int{0}, "[]", "[{1 0 false}]"},
		{[]int{1}, "[]", "[{1 0 false} {1 1 true}]"},
		{[]int{2}, "[]", "[{0 0 true} {1 0 false}]"},
		{[]int{0, 1}, "[0 1]", "[{1 0 false} {1 1 true}]"},
		{[]int{1, 2}, "[1 2]", "[{0 0 true} {1 0 false} {1 1 true}]"},
	} {
		if lost, lacks := fmt.Sprint(m.Lost(p, down(c.down...))), fmt.Sprint(m.Lacks(down(c.down...))); lost != c.lost || lacks != c.lacks {
			t.Errorf("without %v: lost %s and lacks %s, want %s and %s", c.down, lost, lacks, c.lost, c.lacks)
		}
	}
	alone := NewMaking(2, nil)
	if g, ready := alone.Wrote(1); g != 1 || !ready || len(alone.Lacks(down())) > 0 {
		t.Errorf("without groups: %v %v", g, ready)
	}
}
