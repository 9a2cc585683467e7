package protect

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Where nodes are too few for a policy, as much of it is kept as can be, and what is kept is told.
func TestFitting(t *testing.T) {
	inRacks := func(racks ...string) (p Placement) {
		for i, rack := range racks {
			p.Nodes = append(p.Nodes, Node{Name: fmt.Sprint("n", i), Rack: rack})
			p.Of = append(p.Of, i)
		}
		return p
	}
	for _, c := range []struct {
		policy string
		p      Placement
		kept   Policy // nil: nothing
	}{
		{"ring:2", inRacks("", "", ""), Ring(2)},
		{"ring:3", inRacks("", "", ""), Ring(2)},
		{"ring:3", inRacks("", ""), Ring(1)},
		{"ring:3", inRacks(""), nil},
		{"pairs", inRacks(""), nil},
		{"rack", inRacks("a", "b", "a"), OtherRack{}},
		{"rack", inRacks("a", "a"), Ring(1)},
		{"rack", inRacks("a"), nil},
		{"code:4+2", inRacks("", "", ""), Code{Data: 4, Parity: 2}},
		{"code:4+2", inRacks("", ""), Code{Data: 4, Parity: 1}},
		{"code:4+2:racks", inRacks("a", "b", "a", "b"), Code{Data: 4, Parity: 2}},
		{"code:4+1", inRacks(""), nil},
	} {
		policy, err := Parse(c.policy)
		if err != nil {
			t.Fatal(err)
		}
		groups, why := Fitting(policy, c.p)
		name := fmt.Sprintf("%s on %v", c.policy, c.p.Nodes)
		switch {
		case c.kept == nil:
			if why == nil || strings.Contains(why.Error(), "in its place") {
				t.Errorf("%s: %v", name, why)
			}
			continue
		case c.kept == policy:
			if why != nil {
				t.Errorf("%s: %v", name, why)
			}
		case why == nil || !strings.HasSuffix(why.Error(), fmt.Sprintf("; %v is kept in its place", c.kept)):
			t.Errorf("%s: %v", name, why)
		case strings.HasPrefix(c.policy, "ring") && !errors.Is(why, ErrTooFew):
			t.Errorf("%s: %v does not say why", name, why)
		}
		if err := CheckGroups(c.p, groups); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range c.p.Nodes {
			if lost := Lost(c.p, groups, func(m int) bool { return m == n }); len(lost) > 0 {
				t.Errorf("%s: without %s the images of %v are lost", name, c.p.Nodes[n].Name, lost)
			}
		}
	}
}
