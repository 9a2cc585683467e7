package mpi_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// Groups are ordered sets: what calls return is what lists of ranks give.
func TestGroups(t *testing.T) {
	const n = 6
	subset := func(t *rapid.T, name string) []int {
		return rapid.Permutation(values2(n, func(i int) int { return i })).Draw(t, name)[:rapid.IntRange(0, n).Draw(t, "size of "+name)]
	}
	rapid.Check(t, func(rt *rapid.T) {
		as, bs := subset(rt, "a"), subset(rt, "b")
		mpitest.Run(drawn{t, rt}, n, func(c *mpi.Comm) error {
			a, b, err := picks(c, as, bs)
			if err != nil {
				return err
			}
			both := slices.DeleteFunc(slices.Clone(as), func(r int) bool { return !slices.Contains(bs, r) })
			onlyA := slices.DeleteFunc(slices.Clone(as), func(r int) bool { return slices.Contains(bs, r) })
			onlyB := slices.DeleteFunc(slices.Clone(bs), func(r int) bool { return slices.Contains(as, r) })
			rest, err := c.Group().Exclude(as...)
			others := slices.DeleteFunc(values2(n, func(i int) int { return i }), func(r int) bool { return slices.Contains(as, r) })
			alike := mpi.Unequal
			if slices.Equal(as, bs) {
				alike = mpi.Ident
			} else if len(onlyA) == 0 && len(onlyB) == 0 {
				alike = mpi.Similar
			}
			place := slices.Index(as, c.Rank())
			if place < 0 {
				place = mpi.Undefined
			}
			return all(err, want("Union", inWorld(c, a.Union(b)), slices.Concat(as, onlyB)), want("Intersect", inWorld(c, a.Intersect(b)), both),
				want("Difference", inWorld(c, a.Difference(b)), onlyA), want("Exclude", inWorld(c, rest), others),
				want("Compare", []mpi.Comparison{a.Compare(b)}, []mpi.Comparison{alike}), want("Rank", []int{a.Rank()}, []int{place}),
				created(c, a, as), wantErr("twice", errOf(c.Group().Include(1, 1)), mpi.ErrRank), wantErr("none", errOf(c.Group().Exclude(n)), mpi.ErrRank))
		})
	})
}

func errOf[T any](_ T, err error) error { return err }

// created makes communicators of a group, in both ways.
func created(c *mpi.Comm, g mpi.Group, ranks []int) error {
	d, err := c.Create(g)
	if err != nil || (d == nil) != (g.Rank() < 0) {
		return fmt.Errorf("Create: %v, %w", d, err)
	}
	if d == nil {
		return wantIf(len(ranks) > 0, "CreateGroup elsewhere", errOf(c.CreateGroup(g, 1)), mpi.ErrGroup)
	}
	for range 2 {
		e, err := c.CreateGroup(g, 1)
		if err != nil {
			return err
		}
		if err := mpi.SendValue(e, d.Rank(), (d.Rank()+1)%d.Size(), 0); err != nil {
			return err
		}
		v, st, err := mpi.RecvValue[int](e, mpi.AnySource, 0)
		if err != nil || v != st.Source {
			return fmt.Errorf("%v: %d from %d: %w", e, v, st.Source, err)
		}
		order, err := mpi.AllgatherObjects(e, c.Rank())
		if err := all(err, want("ranks", order, ranks), e.Free()); err != nil {
			return err
		}
	}
	return d.Free()
}

func wantIf(is bool, what string, err, class error) error {
	if !is {
		return err
	}
	return wantErr(what, err, class)
}

// Ranks that give different groups are told so, all that are in one.
func TestGroupsDiffer(t *testing.T) {
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		g, err := c.Group().Include(values2(3-c.Rank()%2, func(i int) int { return i })...)
		if err != nil {
			return err
		}
		_, err = c.Create(g)
		return all(wantIf(c.Rank() < 3, "Create", err, mpi.ErrMismatch), mpi.Barrier(c))
	})
}

// Attributes follow duplicates as their keys say, and are freed once.
func TestAttributes(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		freed := map[string]int{}
		copied := mpi.NewKey(func(_ *mpi.Comm, v int) (int, bool) { return v + 1, v < 2 }, func(c *mpi.Comm, v int) { freed[fmt.Sprint(c, v)]++ })
		stays := mpi.NewKey[string](nil, nil)
		d, err := c.Dup()
		if err := all(err, copied.Set(d, 7), copied.Set(d, 1), stays.Set(d, "here")); err != nil {
			return err
		}
		e, err := d.Dup()
		if err != nil {
			return err
		}
		v, ok := copied.Get(e)
		_, other := stays.Get(e)
		f, err := e.Dup() // of a value that is not copied further
		if err != nil {
			return err
		}
		_, further := copied.Get(f)
		if v != 2 || !ok || other || further {
			return fmt.Errorf("%d %v %v %v", v, ok, other, further)
		}
		if err := all(d.Free(), e.Free(), f.Free()); err != nil {
			return err
		}
		if fmt.Sprint(freed) != fmt.Sprint(map[string]int{"world/1 7": 1, "world/1 1": 1, "world/1/1 2": 1}) {
			return fmt.Errorf("freed %v", freed)
		}
		var none mpi.Key[int]
		return all(wantErr("freed", copied.Set(d, 1), mpi.ErrComm), wantErr("no key", none.Set(c, 1), mpi.ErrKey))
	})
}

// Finalize frees what is kept with Self, then with World, the newest first and each once. What is called may still
// communicate, and does not find the value any more.
func TestAttributesAtTheEnd(t *testing.T) {
	freed := make([][]string, 2)
	var sums, own mpi.Key[int]
	free := func(k *mpi.Key[int]) func(*mpi.Comm, int) {
		return func(c *mpi.Comm, v int) {
			me := c.WorldRank(c.Rank())
			_, there := k.Get(c)
			sum, err := mpi.AllreduceValue(c, v, mpi.Sum)
			freed[me] = append(freed[me], fmt.Sprint(c, v, there, sum, err, mpi.Finalized()))
		}
	}
	sums, own = mpi.NewKey(nil, free(&sums)), mpi.NewKey(nil, free(&own))
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		return all(sums.Set(c, 10), own.Set(c.Self(), 1), sums.Set(c.Self(), 2), own.Set(c, 30))
	})
	want := []string{"self 2 false 2 <nil> false", "self 1 false 1 <nil> false", "world 30 false 60 <nil> false", "world 10 false 20 <nil> false"}
	for r, got := range freed {
		if !slices.Equal(got, want) {
			t.Errorf("rank %d: freed %q, want %q", r, got, want)
		}
	}
}

// A duplicate with hints gets its attributes like any other.
func TestAttributesBesideHints(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		k := mpi.NewKey(func(_ *mpi.Comm, v int) (int, bool) { return v + 1, true }, nil)
		d, err := c.Dup()
		if err := all(err, k.Set(d, 4)); err != nil {
			return err
		}
		half, err := c.Split(c.Rank()%2, 0)
		if err != nil {
			return err
		}
		inter, err := mpi.IntercommCreate(half, 0, c, 1-c.Rank()%2, 0)
		if err := all(err, k.Set(inter, 7)); err != nil {
			return err
		}
		for i, x := range []*mpi.Comm{d, inter} {
			was := []int{4, 7}[i]
			hinted, err := x.DupWithInfo(mpi.Info{"coll.bcast": "chain"})
			if err != nil {
				return err
			}
			if v, ok := k.Get(hinted); v != was+1 || !ok {
				return fmt.Errorf("%d %v beside %v", v, ok, hinted.Hints())
			}
			if err := hinted.Free(); err != nil {
				return err
			}
		}
		return errors.Join(d.Free(), inter.Free(), half.Free())
	})
}

// A value may be nil, and where several goroutines set it one of their values stays.
func TestAttributeOfInterface(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		var freed atomic.Int32
		last := mpi.NewKey(func(_ *mpi.Comm, err error) (error, bool) { return err, true }, func(*mpi.Comm, error) { freed.Add(1) })
		var setters sync.WaitGroup
		for range 8 {
			setters.Go(func() { _ = last.Set(c, nil) })
		}
		setters.Wait()
		d, err := c.Dup()
		if err != nil {
			return err
		}
		v, ok := last.Get(d)
		if err := all(last.Delete(c), d.Free()); err != nil {
			return err
		}
		if _, left := last.Get(c); v != nil || !ok || left || freed.Load() != 9 {
			return fmt.Errorf("%v %v %v, freed %d times", v, ok, left, freed.Load())
		}
		return nil
	})
}

// Communicators of all kinds that are made and freed leave nothing behind.
func TestNothingGrows(t *testing.T) {
	const rounds = 850 // of six, twice
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		before := uint64(0)
		for i := range 2 * rounds {
			if err := allKinds(c, i); err != nil {
				return err
			}
			if i+1 == rounds {
				before = objects(c)
			}
		}
		if after := objects(c); c.Rank() == 0 && after > before+rounds/2 {
			return fmt.Errorf("%d objects after %d rounds, %d after twice as many", before, rounds, after)
		}
		return nil
	})
}

func allKinds(c *mpi.Comm, i int) error {
	d, err1 := c.Dup()
	s, err2 := c.Split(0, -c.Rank())
	g, err3 := c.CreateGroup(c.Group(), 1)
	cart, err4 := c.Cart([]int{2}, []bool{true}, false)
	half, err5 := c.Split(c.Rank(), 0)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	inter, err := mpi.IntercommCreate(half, 0, c, 1-c.Rank(), 0)
	if err != nil {
		return err
	}
	if i%10 == 0 {
		err = all(mpi.Barrier(d), mpi.Barrier(s), mpi.Barrier(g), mpi.Barrier(cart.Comm), mpi.Barrier(inter))
	}
	return all(err, d.Free(), s.Free(), g.Free(), cart.Free(), half.Free(), inter.Free())
}

// objects counts what the collector finds, when both ranks stand still.
func objects(c *mpi.Comm) uint64 {
	if mpi.Barrier(c) != nil {
		return 0
	}
	var m runtime.MemStats
	if c.Rank() == 0 {
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
	}
	if mpi.Barrier(c) != nil {
		return 0
	}
	return m.HeapObjects
}

// Groups, grids and intercommunicators are made again after a restart from portable images, and find the messages
// that were on their way.
func TestTopologiesRestart(t *testing.T) {
	mpitest.Restart(t, 4, 4, func(c *mpi.Comm) error {
		r, step, sum := cr.On(c), 0, 0
		if err := errors.Join(r.Register("step", &step), r.Register("sum", &sum)); err != nil {
			return err
		}
		inter, err := sides(c, 2)
		if err != nil {
			return err
		}
		g, err := c.CreateGroup(c.Group(), 5)
		if err != nil {
			return err
		}
		cart, err := c.Cart([]int{2, 2}, []bool{true, true}, true)
		if err != nil {
			return err
		}
		for ; step < 6; step++ {
			for _, x := range []*mpi.Comm{inter, g, cart.Comm} {
				if err := mpi.SendValue(x, 10*step+x.Rank(), x.Rank(), step); err != nil {
					return err
				}
			}
			if err := r.Point(); err != nil {
				return err
			}
			for _, x := range []*mpi.Comm{inter, g, cart.Comm} {
				v, _, err := mpi.RecvValue[int](x, x.Rank(), step)
				if err != nil || v != 10*step+x.Rank() {
					return fmt.Errorf("%v: %d: %w", x, v, err)
				}
			}
			if err := all(mpi.NeighborAllgather(cart, []int{step}, make([]int, 4)), mpi.Barrier(inter)); err != nil {
				return err
			}
			sum += step
		}
		return all(want("sum", []int{sum}, []int{15}), inter.Free(), g.Free(), cart.Free())
	})
}

// Groups of nobody, and ranks that are in none.
func TestGroupCorners(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		g := c.Group()
		none, err1 := g.Include()
		rest, err2 := g.Exclude(0, 1, 2)
		last, err3 := g.Include(2, 0)
		alone, err4 := c.Create(none)
		err := all(err1, err2, err3, err4, want("a communicator of nobody", []bool{alone == nil}, []bool{true}))
		sizes := []int{none.Size(), rest.Size(), none.Union(last).Size(), last.Union(none).Size(), g.Intersect(none).Size(), last.Difference(g).Size(), g.Difference(none).Size()}
		compared := []mpi.Comparison{none.Compare(rest), none.Compare(mpi.Group{}), none.Compare(g), g.Compare(none)}
		ranks := []int{last.Translate(0, g), last.Translate(1, g), g.Translate(1, last), g.Translate(mpi.ProcNull, last), none.Translate(mpi.ProcNull, none), last.Translate(5, g), none.Rank()}
		return all(err, want("sizes", sizes, []int{0, 0, 2, 2, 0, 0, 3}), want("comparisons", compared, []mpi.Comparison{mpi.Ident, mpi.Ident, mpi.Unequal, mpi.Unequal}),
			want("ranks", ranks, []int{2, 0, mpi.Undefined, mpi.ProcNull, mpi.ProcNull, mpi.Undefined, mpi.Undefined}))
	})
}
