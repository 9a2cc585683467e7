package hosts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// picture writes a placement in one line: a 0 1 2, b 3.
func picture(nodes []NodeState, placed [][]int) string {
	var all []string
	for i, ranks := range placed {
		all = append(all, strings.Join(append([]string{nodes[i].Name}, strings.Fields(strings.Trim(fmt.Sprint(ranks), "[]"))...), " "))
	}
	return strings.Join(all, ", ")
}

// states reads nodes, those with a ! before them are not up. A slot count after a ~ is CPUs.
func states(t *testing.T, s string) []NodeState {
	t.Helper()
	var all []NodeState
	for word := range strings.FieldsSeq(s) {
		name, up := strings.CutPrefix(word, "!")
		name, cpus, _ := strings.Cut(name, "~")
		name, most, _ := strings.Cut(name, "/")
		nodes, err := ParseHosts(name)
		if err != nil {
			t.Fatal(err)
		}
		n := NodeState{Node: nodes[0], Up: !up}
		fmt.Sscan(cpus, &n.Slots)
		fmt.Sscan(most, &n.MaxSlots)
		all = append(all, n)
	}
	return all
}

func TestPick(t *testing.T) {
	for _, c := range []struct {
		nodes string
		np    int
		rules Rules
		want  string
	}{
		{"a:4 b:2", 5, Rules{}, "a 0 1 2 3, b 4"},
		{"a:4 b:2", 5, Rules{Policy: ByNode}, "a 0 2 4, b 1 3"},
		{"a:4 b:2", 6, Rules{Policy: ByNode}, "a 0 2 4 5, b 1 3"},
		{"a:4 b:2", 5, Rules{Policy: BySocket}, "a 0 1 2 3, b 4"},
		{"a:2 b:2", 7, Rules{Oversubscribe: true}, "a 0 1 2 3, b 4 5 6"},
		{"a:2 b:2", 7, Rules{Policy: ByNode, Oversubscribe: true}, "a 0 2 4 6, b 1 3 5"},
		{"a:2/3 b:2", 8, Rules{Oversubscribe: true}, "a 0 1 2, b 3 4 5 6 7"},
		{"a~2 b~4", 12, Rules{}, "a 0 1 2 3, b 4 5 6 7 8 9 10 11"},
		{"a~2 b:4", 9, Rules{}, "a 0 1 2 3 4, b 5 6 7 8"},
		{"a:2 b:2 c:2", 4, Rules{Spares: 1}, "a 0 1, b 2 3, c"},
		{"a:2 !b:2 c:2", 4, Rules{Spares: 1}, "a 0 1, b, c 2 3"},
		{"a:2 b:2 c:2", 5, Rules{Spares: 2, FewerSpares: true}, "a 0 1, b 2 3, c 4"},
		{"a:2 b:2 c:2", 4, Rules{Spares: 2, FewerSpares: true}, "a 0 1, b 2 3, c"},
		{"a~2 b~2", 4, Rules{Spares: 2, FewerSpares: true}, "a 0 1 2 3, b"},
		{"a:4 !b:4", 4, Rules{Shrink: true}, "a 0 1 2 3, b"},
		{"a:1", 1, Rules{}, "a 0"},
	} {
		nodes := states(t, c.nodes)
		placed, err := Pick(nodes, c.np, c.rules)
		if got := picture(nodes, placed); err != nil || got != c.want {
			t.Errorf("%d ranks on %s, %+v: %s, %v; want %s", c.np, c.nodes, c.rules, got, err, c.want)
		}
	}
	for _, c := range []struct {
		nodes string
		np    int
		rules Rules
		is    error
		want  string
	}{
		{"a:2 b:2", 5, Rules{}, ErrSlots, "not enough slots: 5 ranks, and a and b have room for 4; name more nodes or slots, or give -oversubscribe"},
		{"a:2/2 b:2/4", 7, Rules{Oversubscribe: true}, ErrSlots, "not enough slots: 7 ranks, and a and b have room for 6; -oversubscribe does not go beyond max_slots"},
		{"a:2 b:2", 4, Rules{Spares: 1}, ErrSlots, "not enough slots: 4 ranks, and a has room for 2; name more nodes or slots, or give -oversubscribe (b: kept idle by -spares 1)"},
		{"a:2 b:2", 5, Rules{Spares: 1, FewerSpares: true}, ErrSlots, "not enough slots: 5 ranks, and a has room for 2; name more nodes or slots, or give -oversubscribe (b: kept idle by -spares 1)"},
		{"a:2 !b:2", 4, Rules{Spares: 1, FewerSpares: true}, ErrSlots, "not enough slots: 4 ranks, and a has room for 2; name more nodes or slots, or give -oversubscribe"},
		{"a:2 b:2", 4, Rules{Spares: 2}, ErrNodes, "not enough nodes: -spares 2 leaves none of 2 for ranks"},
		{"a:2 !b:2", 4, Rules{}, ErrNodes, "not enough nodes: b cannot be used; name others, or more of them with -spares 1, or give -shrink-to-fit"},
		{"!a:2 !b:2", 4, Rules{Shrink: true}, ErrNodes, "not enough nodes: a and b cannot be used"},
	} {
		nodes := states(t, c.nodes)
		placed, err := Pick(nodes, c.np, c.rules)
		if !errors.Is(err, c.is) || err.Error() != c.want {
			t.Errorf("%d ranks on %s, %+v: %s, %v; want %s", c.np, c.nodes, c.rules, picture(nodes, placed), err, c.want)
		}
	}
}

func TestReplace(t *testing.T) {
	for _, c := range []struct {
		nodes  string
		placed [][]int
		rules  Rules
		want   string
	}{
		{"a:2 !b:2 c:2", [][]int{{0, 1}, {2, 3}, nil}, Rules{}, "a 0 1, b, c 2 3"},
		{"a:2 !b:2 c:1 d:2", [][]int{{0, 1}, {2, 3}, nil, nil}, Rules{}, "a 0 1, b, c, d 2 3"},
		{"a:2 !b:2 c:1 d:1", [][]int{{0, 1}, {2, 3}, nil, nil}, Rules{}, "a 0 1, b, c 2, d 3"},
		{"!a:2 !b:2 c:2 d:2", [][]int{{0, 2}, {1, 3}, nil, nil}, Rules{}, "a, b, c 0 2, d 1 3"},
		{"a:4 !b:2 c:2", [][]int{{0, 1}, {2, 3}, {4, 5}}, Rules{Shrink: true}, "a 0 1 2 3, b, c 4 5"},
		{"a:3 !b:2 c:1", [][]int{{0, 1}, {2, 3}, nil}, Rules{Shrink: true}, "a 0 1 3, b, c 2"},
		{"a:2 !b:2", [][]int{{0, 1}, {2, 3}}, Rules{Shrink: true, Oversubscribe: true}, "a 0 1 2 3, b"},
		{"a~2 !b~2", [][]int{{0, 1}, {2, 3}}, Rules{Shrink: true}, "a 0 1 2 3, b"},
		{"a:2 b:2 !c:2", [][]int{{0, 1}, {2, 3}, nil}, Rules{}, "a 0 1, b 2 3, c"},
	} {
		nodes := states(t, c.nodes)
		placed, err := Replace(nodes, c.placed, c.rules)
		if got := picture(nodes, placed); err != nil || got != c.want {
			t.Errorf("%s, %v, %+v: %s, %v; want %s", c.nodes, c.placed, c.rules, got, err, c.want)
		}
	}
	for _, c := range []struct {
		nodes  string
		placed [][]int
		rules  Rules
		want   string
	}{
		{"a:4 !b:2", [][]int{{0, 1}, {2, 3}}, Rules{}, "not enough nodes: b is lost, and no spare has room for 2 ranks; -spares N keeps nodes for this, -shrink-to-fit uses free slots of a"},
		{"a:2 !b:2 c:1", [][]int{{0, 1}, {2, 3}, nil}, Rules{}, "not enough nodes: b is lost, and no spare has room for 1 rank; -spares N keeps nodes for this, -shrink-to-fit with -oversubscribe goes beyond the slots of a and c, of which 0 are free"},
		{"a:3 !b:2 !c:1", [][]int{{0, 1}, {2, 3}, {4}}, Rules{Shrink: true}, "not enough nodes: b and c are lost, and no spare has room for 2 ranks; -spares N keeps nodes for this, -shrink-to-fit with -oversubscribe goes beyond the slots of a, of which 0 are free"},
		{"a:2/2 !b:2", [][]int{{0, 1}, {2, 3}}, Rules{Shrink: true, Oversubscribe: true}, "not enough nodes: b is lost, and no spare has room for 2 ranks; -spares N keeps nodes for this, -oversubscribe does not go beyond max_slots"},
		{"!a:2", [][]int{{0, 1}}, Rules{Shrink: true}, "not enough nodes: a is lost, and no spare has room for 2 ranks; no node is left"},
	} {
		nodes := states(t, c.nodes)
		placed, err := Replace(nodes, c.placed, c.rules)
		if !errors.Is(err, ErrNodes) || err.Error() != c.want {
			t.Errorf("%s, %v, %+v: %s, %v; want %s", c.nodes, c.placed, c.rules, picture(nodes, placed), err, c.want)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	for _, name := range Policies {
		if p, err := ParsePolicy(name); err != nil || p.String() != name {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	if _, err := ParsePolicy("hwthread"); err == nil {
		t.Error("hwthread is taken")
	}
}

// anyNodes draws nodes of all kinds.
func anyNodes(t *rapid.T) []NodeState {
	nodes := make([]NodeState, rapid.IntRange(1, 8).Draw(t, "nodes"))
	for i := range nodes {
		nodes[i] = NodeState{Node: Node{Name: fmt.Sprint("n", i), Slots: rapid.IntRange(1, 5).Draw(t, "slots"), SlotsGiven: rapid.Bool().Draw(t, "given")}, Up: true}
		if rapid.Bool().Draw(t, "limited") {
			nodes[i].MaxSlots = 1 + rapid.IntRange(0, 7).Draw(t, "most")
			if nodes[i].SlotsGiven { // parsers refuse less than Slots
				nodes[i].MaxSlots = max(nodes[i].MaxSlots, nodes[i].Slots)
			}
		}
	}
	return nodes
}

func anyRules(t *rapid.T, nodes int) Rules {
	return Rules{
		Policy:        Policy(rapid.IntRange(0, len(Policies)-1).Draw(t, "policy")),
		Oversubscribe: Oversubscribe(rapid.Bool().Draw(t, "oversubscribe")),
		Spares:        rapid.IntRange(0, nodes-1).Draw(t, "spares"),
		Shrink:        rapid.Bool().Draw(t, "shrink"),
	}
}

// check fails unless every rank is there once, in order, on nodes that are up and within limits.
func check(t *rapid.T, nodes []NodeState, placed [][]int, np int, r Rules) {
	seen := make([]int, np)
	for i, ranks := range placed {
		if !slices.IsSorted(ranks) {
			t.Fatalf("ranks of node %d: %v", i, ranks)
		}
		for _, rank := range ranks {
			seen[rank]++
		}
		n := nodes[i]
		switch {
		case len(ranks) > 0 && !n.Up:
			t.Fatalf("node %d is down and has %v", i, ranks)
		case n.SlotsGiven && !bool(r.Oversubscribe) && len(ranks) > n.Slots:
			t.Fatalf("node %d has %d slots and %v", i, n.Slots, ranks)
		case n.MaxSlots > 0 && len(ranks) > n.MaxSlots:
			t.Fatalf("node %d takes at most %d and has %v", i, n.MaxSlots, ranks)
		}
	}
	for rank, times := range seen {
		if times != 1 {
			t.Fatalf("rank %d is there %d times: %v", rank, times, placed)
		}
	}
}

// TestPlaceProperties: every rank exactly once, slots respected, balanced, and refused only where
// there is no room.
func TestPlaceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := anyNodes(t)
		r := anyRules(t, len(nodes))
		np := rapid.IntRange(1, 40).Draw(t, "np")
		work := nodes[:len(nodes)-r.Spares]
		room := 0
		for _, n := range work {
			room += min(n.limit(r.Oversubscribe), np)
		}
		placed, err := Pick(nodes, np, r)
		if (err == nil) != (room >= np) {
			t.Fatalf("room for %d of %d: %v", room, np, err)
		}
		if err != nil {
			return
		}
		check(t, nodes, placed, np, r)
		for i := range r.Spares {
			if len(placed[len(nodes)-1-i]) > 0 {
				t.Fatalf("a spare has ranks: %v", placed)
			}
		}
		balanced(t, work, placed, r)
	})
}

// balanced fails unless nodes are filled as the policy says, and beyond their slots by the fewest ranks for
// a slot.
func balanced(t *rapid.T, nodes []NodeState, placed [][]int, r Rules) {
	for i, a := range nodes {
		for j, b := range nodes {
			na, nb := len(placed[i]), len(placed[j])
			if na > a.slots() && nb < b.limit(r.Oversubscribe) && (na-1)*b.slots() > nb*a.slots() {
				t.Fatalf("node %d has %d for %d slots, node %d %d for %d", i, na, a.Slots, j, nb, b.Slots)
			}
			if r.Policy == ByNode && na > nb+1 && nb < b.slots() {
				t.Fatalf("dealt out: node %d has %d, node %d %d of %d slots", i, na, j, nb, b.slots())
			}
			if r.Policy != ByNode && i < j && na < a.slots() && nb > 0 {
				t.Fatalf("filled: node %d has %d of %d slots, node %d %d", i, na, a.Slots, j, nb)
			}
		}
	}
}

// Ranks that -shrink-to-fit has put on nodes with others go to spares that come later, as far as these have slots. No
// other rank moves.
func TestRelieve(t *testing.T) {
	for _, c := range []struct {
		nodes         string
		before, after [][]int
		want, guests  string
	}{
		{"a:4 b:2 c:2", [][]int{{0, 1}, {2, 3}, nil}, [][]int{{0, 1, 2, 3}, nil, nil}, "a 0 1, b 2 3, c", "[]"},
		{"a:4 !b:2 c:1", [][]int{{0, 1}, {2, 3}, nil}, [][]int{{0, 1, 2, 3}, nil, nil}, "a 0 1 3, b, c 2", "[3]"},
		{"a:4 !b:2 c:1 d~2", [][]int{{0, 1}, {2, 3}, nil, nil}, [][]int{{0, 1, 2, 3}, nil, nil, nil}, "a 0 1, b, c 2, d 3", "[]"},
		{"a:4 !b:2 !c:1", [][]int{{0, 1}, {2, 3}, nil}, [][]int{{0, 1, 2, 3}, nil, nil}, "a 0 1 2 3, b, c", "[2 3]"},
		{"a:2 !b:2 c:2 d:2", [][]int{{0, 1}, {2, 3}, nil, nil}, [][]int{{0, 1}, nil, {2, 3}, nil}, "a 0 1, b, c 2 3, d", "[]"},
		{"a:2 b:1", [][]int{{0, 1}, nil}, [][]int{{0, 1}, nil}, "a 0 1, b", "[]"},
	} {
		nodes := states(t, c.nodes)
		relieved, left := Relieve(nodes, c.after, Guests(c.before, c.after))
		if got := picture(nodes, relieved); got != c.want || fmt.Sprint(left) != c.guests {
			t.Errorf("%s, %v: %s, guests %v; want %s, %s", c.nodes, c.after, got, left, c.want, c.guests)
		}
	}
}

// TestReplaceProperties: after any losses every rank is there once, survivors stay, limits hold, and
// other nodes than spares take ranks only with -shrink-to-fit.
func TestReplaceProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := anyNodes(t)
		r := anyRules(t, len(nodes))
		np := rapid.IntRange(1, 30).Draw(t, "np")
		placed, err := Pick(nodes, np, r)
		if err != nil {
			t.Skip("no room")
		}
		room := 0
		for i := range nodes {
			nodes[i].Up = rapid.Bool().Draw(t, "up")
			n := nodes[i]
			if n.Up && (r.Shrink || len(placed[i]) == 0) {
				room += min(n.limit(r.Oversubscribe)-len(placed[i]), np)
			}
		}
		homeless := 0
		for i, ranks := range placed {
			if !nodes[i].Up {
				homeless += len(ranks)
			}
		}
		again, err := Replace(nodes, placed, r)
		if (err == nil) != (room >= homeless) {
			t.Fatalf("room for %d of %d: %v", room, homeless, err)
		}
		if err != nil {
			return
		}
		check(t, nodes, again, np, r)
		for i, ranks := range placed {
			for _, rank := range ranks {
				if nodes[i].Up && !slices.Contains(again[i], rank) {
					t.Fatalf("rank %d left node %d, which is up", rank, i)
				}
			}
			if !r.Shrink && len(ranks) > 0 && len(again[i]) > len(ranks) {
				t.Fatalf("node %d had %v and has %v without -shrink-to-fit", i, ranks, again[i])
			}
		}
	})
}
