package mirror_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/mirror"
)

// Ranks that die one after the other, rank 0 among them, are replaced by spares; everybody goes on from one epoch.
func TestLocalRecovery(t *testing.T) {
	p := &program{t: t, steps: 12, n: 300_000}
	p.at = func(m *member, _ *mirror.Description, rank, step int) error {
		if (rank == 1 && step == 5 || rank == 0 && step == 8) && p.once(step) {
			m.die()
		}
		return nil
	}
	if err := start(t, 3, nodesOf(5), p.run).wait(); err != nil {
		t.Fatal(err)
	}
	if a, b := p.back(2), p.back(3); a >= 0 && a < 5 || b >= 0 && b < 8 || a < 0 && b < 0 {
		t.Errorf("went back to epochs %d and %d: 5 and 8 were committed", a, b)
	}
}

// What a policy promises is kept: any so many nodes are lost at once, from any placement.
func TestPromises(t *testing.T) {
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		if checks++; testing.Short() && checks > 6 || checks > 15 {
			return
		}
		nodes := rapid.IntRange(4, 6).Draw(rt, "nodes")
		ranks := rapid.IntRange(nodes, nodes+2).Draw(rt, "ranks")
		policy := rapid.SampledFrom([]mirror.Policy{mirror.Ring(1), mirror.Ring(2), mirror.Pairs{}, mirror.OtherRack{}, mirror.Code{Data: 2, Parity: 1},
			mirror.Code{Data: 2, Parity: 2}, mirror.Code{Data: 3, Parity: 1}}).Draw(rt, "policy")
		k := rapid.IntRange(1, policy.Promise().Nodes).Draw(rt, "lost")
		lost := rapid.Permutation(order(nodes)).Draw(rt, "which")[:k]
		at := nodesOf(nodes)
		for r := nodes; r < ranks; r++ { // some nodes have two ranks
			at = append(at, at[rapid.IntRange(0, nodes-1).Draw(rt, "node")])
		}
		at = append(at, nodesOf(nodes + 2*(ranks-nodes) + 4)[nodes:]...)
		p := &program{t: t, steps: 4, n: rapid.IntRange(0, 3000).Draw(rt, "n"), opt: mirror.Options{Policy: policy}}
		p.at = func(m *member, _ *mirror.Description, rank, step int) error {
			if step == 3 && p.once("loss") {
				var names []string
				for _, n := range lost {
					names = append(names, at[n].Node)
				}
				m.c.loseNodes(names...)
			}
			return nil
		}
		if err := start(t, ranks, at, p.run).wait(); err != nil {
			rt.Fatalf("%v, %d ranks on %d nodes, lost %v: %v", policy, ranks, nodes, lost, err)
		}
		if e := p.backFirst(); e < 3 {
			rt.Fatalf("%v: went back to epoch %d", policy, e)
		}
	})
}

func order(n int) (o []int) {
	for i := range n {
		o = append(o, i)
	}
	return o
}

// More than what was promised is lost: Restore says so on all ranks, and the program may begin anew.
func TestLost(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		p := &program{t: t, steps: 4, n: 100, fresh: fresh}
		p.at = func(m *member, _ *mirror.Description, rank, step int) error {
			if step == 3 && p.once("loss") {
				m.c.loseNodes("n1", "n2")
			}
			return nil
		}
		c := start(t, 4, nodesOf(4), p.run)
		c.later(nodesOf(6)[4:], p.run)
		err := c.wait()
		if fresh {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), mirror.ErrLost.Error()) || !strings.Contains(err.Error(), "any 1 node(s)") {
			t.Errorf("the world ended with %v", err)
		}
		if !slices.ContainsFunc(c.errs, func(err error) bool { return errors.Is(err, mirror.ErrLost) }) {
			t.Errorf("Run returned %v", c.errs)
		}
	}
}

// Two neighbours are lost at once where the policy allows for it.
func TestTwoNeighbours(t *testing.T) {
	for _, policy := range []mirror.Policy{mirror.Ring(2), mirror.Code{Data: 2, Parity: 2}} {
		p := &program{t: t, steps: 4, n: 100_000, opt: mirror.Options{Policy: policy, Copies: 2}}
		p.at = func(m *member, _ *mirror.Description, rank, step int) error {
			if step == 3 && p.once("loss") {
				m.c.loseNodes("n1", "n2")
			}
			return nil
		}
		c := start(t, 5, nodesOf(5), p.run)
		c.later(nodesOf(7)[5:], p.run)
		if err := c.wait(); err != nil {
			t.Fatalf("%v: %v", policy, err)
		}
		if e := p.backFirst(); e < 3 {
			t.Errorf("%v: went back to epoch %d", policy, e)
		}
	}
}

// A rank dies in the middle of everything: while images travel, again and again.
func TestDeathsAnywhere(t *testing.T) {
	p := &program{t: t, steps: 8, n: 400_000, opt: mirror.Options{Policy: mirror.Ring(1)}}
	const deaths = 5
	c := start(t, 3, nodesOf(3+deaths), func(ctx context.Context, m *member) error {
		if life := m.world.Life(); life <= deaths && m.world.Rank() == life%3 {
			p := *m
			sent := 0
			go func() { // once some of the life's first blocks have gone out
				for ctx.Err() == nil && sent < life*1000 {
					sent++
				}
				p.die()
			}()
		}
		return p.run(ctx, m)
	})
	if err := c.wait(); err != nil && !strings.Contains(err.Error(), mirror.ErrLost.Error()) {
		t.Fatal(err)
	}
}

// Ranks that open a description differently are told so.
func TestMismatch(t *testing.T) {
	c := start(t, 2, nodesOf(2), func(ctx context.Context, m *member) error {
		d, err := mirror.Open(m.world, "state", mirror.Options{Policy: []mirror.Policy{mirror.Ring(1), mirror.Pairs{}}[m.world.Rank()]})
		if err != nil {
			return err
		}
		_, err = d.Restore(ctx)
		if !errors.Is(err, mirror.ErrMismatch) || !strings.Contains(err.Error(), "pairs") {
			t.Errorf("Restore: %v", err)
		}
		return nil
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}

// A function that fails by itself ends the world, and all are told who.
func TestFailure(t *testing.T) {
	c := start(t, 2, nodesOf(3), func(ctx context.Context, m *member) error {
		if m.world.Rank() == 1 {
			return errors.New("out of cheese")
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err := c.wait(); err == nil || !strings.Contains(err.Error(), "rank 1: out of cheese") {
		t.Errorf("the world ended with %v", err)
	}
	if len(c.errs) != 3 || slices.Contains(c.errs, nil) {
		t.Errorf("Run returned %v", c.errs)
	}
}

// Nobody is on the only node but the ranks themselves: refused by name.
func TestOneNode(t *testing.T) {
	c := start(t, 2, []mirror.Place{{Node: "a"}, {Node: "a"}}, func(ctx context.Context, m *member) error {
		_, err := mirror.Open(m.world, "state", mirror.Options{})
		if err == nil || !strings.Contains(err.Error(), "needs 2 node(s), and there are 1") {
			t.Errorf("Open: %v", err)
		}
		_, err = mirror.Open(m.world, "state", mirror.Options{Policy: mirror.Pairs{}, Copies: 2})
		if err == nil || !strings.Contains(err.Error(), "and 2 were asked for") {
			t.Errorf("Open: %v", err)
		}
		_, err = mirror.Open(m.world, "../x", mirror.Options{})
		if err == nil {
			t.Error("a name with a slash was taken")
		}
		return nil
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}

// Regions that mean nothing elsewhere are refused, by name.
func TestRegions(t *testing.T) {
	c := start(t, 1, nodesOf(1), func(ctx context.Context, m *member) error {
		d, err := mirror.Open(m.world, "state", mirror.Options{Policy: mirror.None{}})
		if err != nil {
			return err
		}
		var s string
		var p []*int
		var nested struct{ a [2][]int }
		for _, bad := range []any{&s, &p, &nested, 7, (*int)(nil), new(uintptr)} {
			if err := d.Region("x", bad); err == nil || !strings.Contains(err.Error(), `region "x"`) {
				t.Errorf("%T: %v", bad, err)
			}
		}
		var ok struct {
			a [3]float64
			b bool
		}
		if err := d.Region("x", &ok); err != nil {
			return err
		}
		if err := d.Region("x", &ok); err == nil {
			t.Error("one name twice")
		}
		if err := d.Start(ctx); err == nil || !strings.Contains(err.Error(), "Restore") {
			t.Errorf("Start before Restore: %v", err)
		}
		return nil
	})
	if err := c.wait(); err != nil {
		t.Fatal(err)
	}
}
