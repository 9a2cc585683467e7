package protect

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// placement draws any placement: ranks anywhere, some nodes without, racks of any size.
func placement(t *rapid.T) Placement {
	var p Placement
	racks := rapid.IntRange(1, 6).Draw(t, "racks")
	for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
		p.Nodes = append(p.Nodes, Node{Name: fmt.Sprint("n", i), Rack: fmt.Sprint("r", rapid.IntRange(0, racks-1).Draw(t, "rack"))})
	}
	for range rapid.IntRange(1, 40).Draw(t, "ranks") {
		p.Of = append(p.Of, rapid.IntRange(0, len(p.Nodes)-1).Draw(t, "node"))
	}
	return p
}

func policy(t *rapid.T) Policy {
	c := Code{Data: rapid.IntRange(1, 6).Draw(t, "data"), Parity: rapid.IntRange(1, 3).Draw(t, "parity"), Racks: rapid.Bool().Draw(t, "racks")}
	next := Func{Name: "next", Copies: 1, To: func(rank int, p Placement) []int { return []int{(p.Of[rank] + 1) % len(p.Nodes)} }}
	return rapid.SampledFrom([]Policy{Ring(1), Ring(2), Ring(3), Pairs{}, OtherRack{}, c, next}).Draw(t, "policy")
}

// racksOf counts the racks of a placement.
func racksOf(p Placement) int {
	seen := map[string]bool{}
	for _, n := range p.Nodes {
		seen[n.Rack] = true
	}
	return len(seen)
}

// Every loss that a policy promises to survive leaves every image to be had, from every placement.
func TestPromise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, by := placement(t), policy(t)
		groups, err := by.Groups(p)
		if err != nil {
			if fitting(by, p) {
				t.Fatalf("%v refuses %v: %v", by, p, err)
			}
			return
		}
		if err := CheckGroups(p, groups); err != nil {
			t.Fatalf("%v: %v", by, err)
		}
		again, err := by.Groups(p)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(groups) {
			t.Fatalf("%v answers %v, then %v: %v", by, groups, again, err)
		}
		promise := by.Promise()
		every(len(p.Nodes), promise.Nodes, func(lost []int) {
			if ranks := Lost(p, groups, func(n int) bool { return slices.Contains(lost, n) }); ranks != nil {
				t.Fatalf("%v on %v: without nodes %v ranks %v are lost", by, p, lost, ranks)
			}
		})
		every(racksOf(p), promise.Racks, func(lost []int) {
			names := map[string]bool{}
			for _, n := range p.Nodes {
				names[n.Rack] = true
			}
			all := slices.Sorted(func(yield func(string) bool) {
				for name := range names {
					if !yield(name) {
						return
					}
				}
			})
			gone := func(n int) bool {
				return slices.ContainsFunc(lost, func(i int) bool { return all[i] == p.Nodes[n].Rack })
			}
			if ranks := Lost(p, groups, gone); ranks != nil {
				t.Fatalf("%v on %v: without racks %v ranks %v are lost", by, p, lost, ranks)
			}
		})
	})
}

// fitting reports whether a policy has no reason to refuse a placement.
func fitting(by Policy, p Placement) bool {
	switch by := by.(type) {
	case Ring:
		return len(p.Nodes) > int(by)
	case OtherRack:
		return racksOf(p) > 1
	case Code:
		if by.Racks {
			return racksOf(p) > by.Parity
		}
		return len(p.Nodes) > by.Parity
	}
	return len(p.Nodes) > 1
}

// every calls f with every choice of k out of n, none for k 0.
func every(n, k int, f func([]int)) {
	if k == 0 {
		return
	}
	var choose func(from int, chosen []int)
	choose = func(from int, chosen []int) {
		if len(chosen) == k || from == n {
			f(chosen)
			return
		}
		choose(from+1, append(slices.Clone(chosen), from))
		choose(from+1, chosen)
	}
	choose(0, nil)
}

// One node more than promised is too much where groups are full: Lost says so.
func TestTooManyLost(t *testing.T) {
	p := Placement{Nodes: make([]Node, 4), Of: []int{0, 1, 2, 3}}
	for i := range p.Nodes {
		p.Nodes[i].Name = fmt.Sprint("n", i)
	}
	for by, lost := range map[Policy][]int{Ring(1): {1, 2}, Pairs{}: {2, 3}, Code{Data: 3, Parity: 1}: {0, 1}} {
		groups, err := by.Groups(p)
		if err != nil {
			t.Fatal(err)
		}
		if ranks := Lost(p, groups, func(n int) bool { return slices.Contains(lost, n) }); len(ranks) == 0 {
			t.Errorf("%v: nothing is lost without %v: %v", by, lost, groups)
		}
	}
}

// Groups are full where that is possible, and what nodes hold is shared out.
func TestCodeIsThrifty(t *testing.T) {
	p := Placement{Nodes: make([]Node, 8)}
	for rank := range 32 {
		p.Of = append(p.Of, rank/4)
	}
	groups, err := Code{Data: 4, Parity: 2}.Groups(p)
	if err != nil || len(groups) != 8 {
		t.Fatalf("%d groups of 32 ranks: %v", len(groups), err)
	}
	for n, load := range Load(p, groups, func(int) int64 { return 100 }) {
		if load != 200 {
			t.Errorf("node %d holds %d bytes of others, not 200", n, load)
		}
	}
	ring, err := Ring(2).Groups(p)
	if err != nil {
		t.Fatal(err)
	}
	for n, load := range Load(p, ring, func(rank int) int64 { return int64(rank) }) {
		want := int64(0)
		for _, rank := range ring {
			if slices.Contains(rank.Shards, n) {
				want += int64(rank.Ranks[0])
			}
		}
		if load != want {
			t.Errorf("node %d holds %d bytes, not %d", n, load, want)
		}
	}
}

func TestRefused(t *testing.T) {
	p := Placement{Nodes: []Node{{Name: "a", Rack: "x"}, {Name: "b", Rack: "x"}}, Of: []int{0, 1}}
	noRack := Placement{Nodes: []Node{{Name: "a"}, {Name: "b", Rack: "x"}}, Of: []int{0, 1}}
	own := Func{Name: "own", Copies: 1, To: func(rank int, p Placement) []int { return []int{p.Of[rank]} }}
	none := Func{Name: "none", Copies: 1, To: func(int, Placement) []int { return nil }}
	for _, c := range []struct {
		by   Policy
		p    Placement
		want string
	}{
		{Ring(2), p, "policy ring:2 needs 3 node(s), and there are 2"},
		{Code{Data: 4, Parity: 2}, p, "policy code:4+2 needs 3 node(s)"},
		{Code{Data: 4, Parity: 1, Racks: true}, p, "needs 2 rack(s), and there are 1"},
		{Code{Data: 4}, p, "at least 1+1"},
		{OtherRack{}, p, "two racks"},
		{OtherRack{}, noRack, "rack of node a is not known"},
		{own, p, "node a has both rank 0 and shard 0"},
		{none, p, "0 replicas of rank 0, and it promises 1"},
		{Pairs{}, Placement{Nodes: p.Nodes, Of: []int{7}}, "rank 0 is on node 7 of 2"},
		{Pairs{}, Placement{}, "no nodes"},
	} {
		_, err := c.by.Groups(c.p)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want one with %q", c.by, err, c.want)
		}
		if strings.Contains(c.want, "needs 3") && !errors.Is(err, ErrTooFew) {
			t.Errorf("%v: %v is no ErrTooFew", c.by, err)
		}
	}
}

func TestParse(t *testing.T) {
	for _, by := range []Policy{Ring(1), Ring(3), Pairs{}, OtherRack{}, Code{Data: 4, Parity: 2}, Code{Data: 8, Parity: 3, Racks: true}} {
		if got, err := Parse(by.String()); got != by || err != nil {
			t.Errorf("%v: %v, %v", by, got, err)
		}
	}
	for _, s := range []string{"", "ring:", "ring:0", "ring:x", "pairs:2", "code", "code:4", "code:4+", "code:0+1", "code:4+2:rack", "code:255+2", "star"} {
		if got, err := Parse(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}
