package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gorun-mpi/gorun/cr/mirror"
)

// window is a part of the images of these tests, which changes as a whole or not at all.
const window = 300_000

// edited is the state of a rank after so many steps. Each step rewrites some of its windows, and now and then it gets longer or shorter.
func edited(seed uint64, rank, steps int) []byte {
	draw := func(step, what, n int) int {
		h := fnv.New64a()
		fmt.Fprint(h, seed, rank, step, what)
		return int(h.Sum64() % uint64(n))
	}
	x := make([]byte, window*(2+draw(0, -1, 6))+draw(0, -2, 3))
	for step := 1; step <= steps; step++ {
		if draw(step, -3, 3) == 0 {
			x = slices.Grow(x[:min(len(x), window*draw(step, -4, 8))], 8*window)
			x = x[:len(x)+draw(step, -5, window)]
		}
		for w := 0; w*window < len(x); w++ {
			if draw(step, w, 3) == 0 {
				for i := w * window; i < min(len(x), (w+1)*window); i += 97 {
					x[i] = byte(step + i)
				}
			}
		}
	}
	return x
}

// Images that change in part, and in length, come back as they were: whatever is lost of what the policy promises, at any step, and
// after epochs that were given up.
func TestChangedWindows(t *testing.T) {
	checks := 0
	rapid.Check(t, func(rt *rapid.T) {
		if checks++; testing.Short() && checks > 1 || checks > 3 {
			return
		}
		policy := rapid.SampledFrom([]mirror.Policy{mirror.Ring(2), mirror.Code{Data: 2, Parity: 1}, mirror.Code{Data: 3, Parity: 2}}).Draw(rt, "policy")
		seed := rapid.Uint64().Draw(rt, "seed")
		at := rapid.IntRange(1, 6).Draw(rt, "step of the loss")
		flip := rapid.IntRange(1, 6).Draw(rt, "step before which a bit flips")
		if at == flip-1 { // a flip and a loss at once are more than was promised
			at = flip
		}
		lost := rapid.Permutation(order(5)).Draw(rt, "which")[:policy.Promise().Nodes]
		p := &program{t: t}
		c := start(t, 5, nodesOf(7), func(ctx context.Context, m *member) error {
			var step int
			var x []byte
			rank := m.world.Rank()
			d, err := mirror.Open(m.world, "state", mirror.Options{Policy: policy})
			if err != nil {
				return err
			}
			if err := cmpErr(d.Region("step", &step), d.Region("x", &x)); err != nil {
				return err
			}
			epoch, err := d.Restore(ctx)
			if err != nil {
				return err
			}
			p.note(m.world.Life(), epoch)
			if epoch > 0 && !slices.Equal(x, edited(seed, rank, step)) {
				t.Errorf("%v: rank %d, step %d, seed %d: another image comes back", policy, rank, step, seed)
			}
			for step < 8 {
				step++
				x = edited(seed, rank, step)
				if step == flip && p.once("flip") {
					m.world.FlipAny("state")
				}
				if err := d.Start(ctx); err != nil {
					return err
				}
				if err := commit(ctx, d); errors.Is(err, mirror.ErrGaveUp) {
					step-- // the next one tells all
				} else if err != nil {
					return err
				}
				if step == at && p.once("loss") {
					var names []string
					for _, n := range lost {
						names = append(names, fmt.Sprintf("n%d", n))
					}
					m.c.loseNodes(names...)
				}
			}
			return nil
		})
		if err := c.wait(); err != nil {
			rt.Fatalf("%v, lost %v: %v", policy, lost, err)
		}
	})
}

// What has not changed does not travel: of an image of some blocks of which one has changed, that one.
func TestWhatTravels(t *testing.T) {
	for policy, copies := range map[mirror.Policy]int64{mirror.Ring(2): 2, mirror.Code{Data: 2, Parity: 1}: 1} {
		c := start(t, 3, nodesOf(3), func(ctx context.Context, m *member) error {
			x := make([]byte, 4<<20)
			d, _, err := open(ctx, m, "x", mirror.Options{Policy: policy}, &x)
			if err != nil {
				return err
			}
			for _, want := range []int64{5, 1, 0, 5} {
				for i := range min(want, 4) {
					x[i<<20]++
				}
				if want > 4 { // the image has a description before it, so it has a block more
					x[len(x)-1]++
				}
				if err := cmpErr(d.Start(ctx), commit(ctx, d)); err != nil {
					return err
				}
				if s := d.Stats(); s.Sent > want*copies<<20 || s.Sent < (want-1)*copies<<20 {
					t.Errorf("%v: %d bytes of %d were sent, %d blocks have changed", policy, s.Sent, s.Bytes, want)
				}
			}
			return nil
		})
		if err := c.wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// A bit of what is held that flips is found when the next epoch is told by it: that one is given up, and the one after it is whole.
func TestFlippedBase(t *testing.T) {
	for _, k := range []struct {
		policy mirror.Policy
		flip   func(w *mirror.World) bool
	}{
		{mirror.Ring(1), func(w *mirror.World) bool { return w.Rank() == 1 && w.Flip("x", 0) }},
		{mirror.Code{Data: 2, Parity: 1}, func(w *mirror.World) bool { return w.FlipParity("x") }},
		{mirror.Code{Data: 2, Parity: 1}, func(w *mirror.World) bool { return w.Rank() == 0 && w.Flip("x", 0) }},
	} {
		var before sync.WaitGroup
		before.Add(3)
		c := start(t, 3, nodesOf(3), func(ctx context.Context, m *member) error {
			x := make([]byte, 3<<20)
			d, _, err := open(ctx, m, "x", mirror.Options{Policy: k.policy}, &x)
			if err != nil {
				return err
			}
			if err := cmpErr(d.Start(ctx), commit(ctx, d)); err != nil {
				return err
			}
			k.flip(m.world)
			before.Done()
			before.Wait()
			x[0] = 1
			if err := d.Start(ctx); err != nil {
				return err
			}
			if err := commit(ctx, d); !errors.Is(err, mirror.ErrGaveUp) || !strings.Contains(err.Error(), "is not what it was") {
				t.Errorf("%v: Commit: %v", k.policy, err)
			}
			x[0] = 2
			if err := cmpErr(d.Start(ctx), commit(ctx, d)); err != nil {
				return err
			}
			x[0] = 3
			if epoch, err := d.Restore(ctx); epoch != 3 || err != nil || x[0] != 2 {
				t.Errorf("%v: epoch %d, %v, x[0] is %d, %+v", k.policy, epoch, err, x[0], d.Stats())
			}
			return nil
		})
		if err := c.wait(); err != nil {
			t.Fatal(err)
		}
	}
}
