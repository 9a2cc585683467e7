package mpi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
	"pgregory.net/rapid"
)

// sides makes an intercommunicator of the first n ranks and the others, the first ones backwards.
func sides(c *mpi.Comm, n int) (*mpi.Comm, error) {
	high, key, other := 0, -c.Rank(), n
	if c.Rank() >= n {
		high, key, other = 1, c.Rank(), n-1
	}
	group, err := c.Split(high, key)
	if err != nil {
		return nil, err
	}
	inter, err := mpi.IntercommCreate(group, 0, c, other, 3)
	return inter, all(err, group.Free())
}

// Every collective does on an intercommunicator what the standard says, on duplicates and parts of it, too.
func TestInterCollectives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 7).Draw(rt, "ranks")
		low := rapid.IntRange(1, n-1).Draw(rt, "low")
		k := rapid.SampledFrom([]int{0, 1, 5, 3000}).Draw(rt, "length")
		op := operator(rt)
		mpitest.Run(drawn{t, rt}, n, func(c *mpi.Comm) error {
			inter, err := sides(c, low)
			if err != nil {
				return err
			}
			dup, err := inter.Dup()
			if err != nil {
				return err
			}
			part, err := inter.Split(inter.Rank()%2, -inter.Rank())
			if err != nil {
				return err
			}
			for _, x := range []*mpi.Comm{inter, dup, part} {
				if x == nil {
					continue // a colour of one side alone
				}
				if err := all(crossing(x, k, op), crossingRooted(x, k, op), x.Free()); err != nil {
					return fmt.Errorf("%v: %w", x, err)
				}
			}
			return nil
		})
	})
}

func crossing(x *mpi.Comm, k int, op mpi.Op[affine]) error {
	me, theirs := x.Rank(), x.RemoteSize()
	id := func(side, r int) int { return 1000*side + r }
	got := make([]int, theirs)
	if err := mpi.Allgather(x, []int{x.WorldRank(me)}, got); err != nil {
		return err
	}
	fromThem := values2(theirs*k, func(i int) int { return id(got[i/max(k, 1)], i%max(k, 1)) })
	own := values2(k, func(i int) int { return id(x.WorldRank(me), i) })
	recv := make([]int, theirs*k)
	if err := all(mpi.Barrier(x), mpi.Allgather(x, own, recv), want("Allgather", recv, fromThem)); err != nil {
		return err
	}
	clear(recv)
	counts := slices.Repeat([]int{k}, theirs)
	if err := all(mpi.Allgatherv(x, own, recv, counts, nil), want("Allgatherv", recv, fromThem)); err != nil {
		return err
	}
	send := values2(theirs*k, func(i int) int { return id(x.WorldRank(me), 100*got[i/max(k, 1)]+i%max(k, 1)) })
	expect := values2(theirs*k, func(i int) int { return id(got[i/max(k, 1)], 100*x.WorldRank(me)+i%max(k, 1)) })
	if err := all(mpi.Alltoall(x, send, recv), want("Alltoall", recv, expect)); err != nil {
		return err
	}
	clear(recv)
	if err := all(mpi.Alltoallv(x, send, counts, nil, recv, counts, nil), want("Alltoallv", recv, expect)); err != nil {
		return err
	}
	sum := make([]affine, k)
	combined := modelOf(got, k, op)
	if err := all(mpi.Allreduce(x, mine(x.WorldRank(me), k), sum, op), want("Allreduce", sum, combined)); err != nil {
		return err
	}
	whole := x.Size() * theirs * k
	block := make([]affine, theirs*k)
	err := mpi.ReduceScatterBlock(x, mine(x.WorldRank(me), whole), block, op)
	return all(err, want("ReduceScatterBlock", block, modelOf(got, whole, op)[me*theirs*k:(me+1)*theirs*k]))
}

// crossingRooted has every rank of one side, and then of the other, be the root.
func crossingRooted(x *mpi.Comm, k int, op mpi.Op[affine]) error {
	got := make([]int, x.RemoteSize())
	if err := mpi.Allgather(x, []int{x.WorldRank(x.Rank())}, got); err != nil {
		return err
	}
	mineFirst := x.WorldRank(0) < got[0]
	for _, ours := range []bool{mineFirst, !mineFirst} {
		roots := x.RemoteSize()
		if ours {
			roots = x.Size()
		}
		for r := range roots {
			root := r
			if ours {
				if root = mpi.ProcNull; x.Rank() == r {
					root = mpi.Root
				}
			}
			if err := fromRoot(x, k, op, root, got); err != nil {
				return fmt.Errorf("root %d: %w", root, err)
			}
		}
	}
	return nil
}

func fromRoot(x *mpi.Comm, k int, op mpi.Op[affine], root int, them []int) error {
	me, theirs := x.WorldRank(x.Rank()), x.RemoteSize()
	receives := root >= 0
	buf := make([]affine, k)
	if root == mpi.Root {
		copy(buf, mine(me, k))
	}
	if err := mpi.Bcast(x, buf, root); err != nil {
		return err
	}
	if receives {
		if err := want("Bcast", buf, mine(them[root], k)); err != nil {
			return err
		}
	}
	sum := make([]affine, k)
	if err := mpi.Reduce(x, mine(me, k), sum, op, root); err != nil {
		return err
	}
	whole, everything := make([]affine, theirs*k), []affine(nil)
	for _, r := range them {
		everything = append(everything, mine(r, k)...)
	}
	counts := slices.Repeat([]int{k}, theirs)
	for _, gather := range []func() error{
		func() error { return mpi.Gather(x, mine(me, k), whole, root) },
		func() error { return mpi.Gatherv(x, mine(me, k), whole, counts, nil, root) },
	} {
		clear(whole)
		if err := mpi.Barrier(x); err != nil {
			return err
		}
		if err := gather(); err != nil {
			return err
		}
	}
	if root == mpi.Root {
		if err := all(want("Reduce", sum, modelOf(them, k, op)), want("Gather", whole, everything)); err != nil {
			return err
		}
	}
	part := make([]affine, k)
	if err := mpi.Scatter(x, everything, part, root); err != nil {
		return err
	}
	if receives {
		if err := want("Scatter", part, mine(me, k)); err != nil {
			return err
		}
	}
	clear(part)
	if err := mpi.Scatterv(x, everything, counts, nil, part, root); err != nil || !receives {
		return err
	}
	return want("Scatterv", part, mine(me, k))
}

// Messages go to the other group, wildcards see it, and merging gives both.
func TestInterMessages(t *testing.T) {
	mpitest.Run(t, 5, func(c *mpi.Comm) error {
		inter, err := sides(c, 2)
		if err != nil {
			return err
		}
		for r := range inter.RemoteSize() {
			if err := mpi.SendValue(inter, inter.Rank(), r, 1); err != nil {
				return err
			}
		}
		heard := make([]bool, inter.RemoteSize())
		for range heard {
			v, st, err := mpi.RecvValue[int](inter, mpi.AnySource, 1)
			if err != nil || v != st.Source || heard[v] {
				return fmt.Errorf("%d from rank %d: %w", v, st.Source, err)
			}
			heard[v] = true
		}
		both, err := inter.Merge(c.Rank() < 2)
		if err != nil {
			return err
		}
		order, err := mpi.AllgatherObjects(both, c.Rank())
		same, cerr := both.Compare(c)
		if err := all(err, cerr, want("merged", order, []int{2, 3, 4, 1, 0}), want("alike", []mpi.Comparison{same}, []mpi.Comparison{mpi.Similar})); err != nil {
			return err
		}
		_, err = inter.Merge(c.Rank() == 0)
		return all(wantErr("Merge of ranks that differ", err, mpi.ErrMismatch),
			wantErr("Scan", mpi.Scan(inter, []int{1}, []int{0}, mpi.Sum), mpi.ErrComm), wantErr("in place", mpi.AllreduceInPlace(inter, []int{1}, mpi.Sum), mpi.ErrComm),
			both.Free(), inter.Free(), wantErr("freed", mpi.Barrier(inter), mpi.ErrComm))
	})
}

// What fails in one group fails in both.
func TestInterFailures(t *testing.T) {
	for name, call := range map[string]func(x *mpi.Comm, wrong bool) error{
		"length": func(x *mpi.Comm, wrong bool) error {
			return mpi.Allreduce(x, make([]int, 4), make([]int, map[bool]int{false: 4, true: 3}[wrong]), mpi.Sum)
		},
		"call": func(x *mpi.Comm, wrong bool) error {
			if wrong {
				return mpi.Barrier(x)
			}
			return mpi.Allreduce(x, []int{1}, []int{0}, mpi.Sum)
		},
		"root": func(x *mpi.Comm, wrong bool) error {
			if wrong {
				return mpi.Bcast(x, []int{1}, 17)
			}
			return mpi.Allgather(x, []int{1}, make([]int, x.RemoteSize()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, who := range []int{0, 2, 4} {
				mpitest.Run(t, 5, func(c *mpi.Comm) error {
					inter, err := sides(c, 2)
					if err != nil {
						return err
					}
					err = call(inter, c.Rank() == who)
					for err == nil { // it may have needed nobody
						err = mpi.Barrier(inter)
					}
					return all(mpi.Barrier(c), inter.Free())
				})
			}
		})
	}
}

// A leader that cannot meet the other tells its group.
func TestLeaderFails(t *testing.T) {
	mpitest.Run(t, 4, func(c *mpi.Comm) error {
		group, err := c.Split(c.Rank()/2, 0)
		if err != nil {
			return err
		}
		_, err1 := mpi.IntercommCreate(group, 1, nil, 0, 0)
		_, err2 := mpi.IntercommCreate(group, 0, c, 9, 0)
		_, err3 := mpi.IntercommCreate(group, 0, c, c.Rank(), 0)
		_, err4 := mpi.IntercommCreate(group, 0, c, 2-group.WorldRank(0), -5)
		return all(wantErr("no peer", err1, mpi.ErrComm), atLeader(group, 0, err2, mpi.ErrRank), atLeader(group, 0, err3, mpi.ErrRank), atLeader(group, 0, err4, mpi.ErrTag))
	})
}

// Ranks of a group that do not name the same leader are told, and so is the other group.
func TestLeadersDiffer(t *testing.T) {
	for _, x := range []struct {
		who, says int
		class     error
	}{{1, 1, mpi.ErrMismatch}, {1, 7, mpi.ErrRank}, {0, 1, mpi.ErrMismatch}, {0, -1, mpi.ErrRank}, {3, 1, mpi.ErrMismatch}} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			mpitest.RunWithin(t, 10*time.Second, 5, func(c *mpi.Comm) error {
				side := min(c.Rank()/2, 1) // 0 and 1, and 2, 3 and 4
				group, err := c.Split(side, 0)
				if err != nil {
					return err
				}
				if x.who == 0 && side == 1 { // nobody takes itself for the leader of the other group, and would tell
					return mpi.Barrier(c)
				}
				leader, class := 0, mpi.ErrMismatch
				if c.Rank() == x.who {
					leader, class = x.says, x.class
				}
				if _, err = mpi.IntercommCreate(group, leader, c, 2*(1-side), 4); side != min(x.who/2, 1) && group.Rank() > 0 {
					class = mpi.ErrComm // what the leader has said
				}
				return all(wantErr("the call", err, class), mpi.Barrier(c))
			})
		})
	}
}

func atLeader(group *mpi.Comm, leader int, err, class error) error {
	if group.Rank() == leader {
		return wantErr("at the leader", err, class)
	}
	return wantErr("in its group", err, mpi.ErrComm)
}

// Parts of any length, and any values, go to the other group.
func TestInterLengths(t *testing.T) {
	mpitest.Run(t, 5, func(c *mpi.Comm) error {
		x, err := sides(c, 2)
		if err != nil {
			return err
		}
		part := func(r int) []int { return slices.Repeat([]int{r}, r) } // of each rank of the world
		theirs, expect, counts, cuts := make([]int, x.RemoteSize()), []int(nil), []int(nil), [][]int(nil)
		if err := mpi.Allgather(x, []int{c.Rank()}, theirs); err != nil {
			return err
		}
		for _, r := range theirs {
			expect, counts, cuts = append(expect, part(r)...), append(counts, r), append(cuts, part(r))
		}
		got, lengths, err := mpi.AllgatherAlloc(x, part(c.Rank()))
		if err := all(err, want("AllgatherAlloc", got, expect), want("counts", lengths, counts)); err != nil {
			return err
		}
		pieces, err := mpi.AlltoallAlloc(x, slices.Repeat([][]int{part(c.Rank())}, len(theirs)))
		if err != nil || !slices.EqualFunc(pieces, cuts, slices.Equal) {
			return fmt.Errorf("AlltoallAlloc: %v, %w", pieces, err)
		}
		names, err := mpi.AllgatherObjects(x, fmt.Sprint(c.Rank()))
		if err := all(err, want("AllgatherObjects", names, texts(theirs))); err != nil {
			return err
		}
		root := map[int]int{0: mpi.ProcNull, 1: mpi.Root}[c.Rank()] // of sides(c, 2), backwards: rank 1 of the world is rank 0
		got, lengths, err = mpi.GatherAlloc(x, part(c.Rank()), root)
		if root != mpi.Root {
			expect, counts = nil, nil
		}
		if err := all(err, want("GatherAlloc", got, expect), want("counts", lengths, counts)); err != nil {
			return err
		}
		return interObjects(c, x, root, theirs)
	})
}

func interObjects(c, x *mpi.Comm, root int, theirs []int) error {
	names, err := mpi.GatherObjects(x, fmt.Sprint(c.Rank()), root)
	if root == mpi.Root {
		err = all(err, want("GatherObjects", names, texts(theirs)))
	} else if len(names) != 0 {
		err = fmt.Errorf("GatherObjects: %v", names)
	}
	if err != nil {
		return err
	}
	mine, told, given := fmt.Sprint(c.Rank()), "1", fmt.Sprint(c.Rank())
	switch root {
	case mpi.Root:
		given = ""
	case mpi.ProcNull:
		told, given = mine, ""
	}
	name, err := mpi.BcastObject(x, mine, root)
	if err != nil || name != told {
		return fmt.Errorf("BcastObject: %q, want %q: %w", name, told, err)
	}
	if name, err = mpi.ScatterObjects(x, texts(theirs), root); err != nil || name != given {
		return fmt.Errorf("ScatterObjects: %q, want %q: %w", name, given, err)
	}
	if err := mpi.Barrier(x); err != nil { // what fails next does so everywhere, also in what has not ended
		return err
	}
	_, err = mpi.AllgatherObjects(x, func() {})
	return all(wantSome("a function", err), x.Free())
}

func texts(numbers []int) (all []string) {
	for _, n := range numbers {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func wantSome(what string, err error) error {
	if err == nil {
		return fmt.Errorf("%s: no error", what)
	}
	return nil
}

// What an intercommunicator has not says so, on every rank, and does it no harm. Values go across.
func TestInterRefuses(t *testing.T) {
	mpitest.RunWithin(t, 20*time.Second, 3, func(c *mpi.Comm) error {
		x, err := sides(c, 1)
		if err != nil {
			return err
		}
		b := make([]int, 6)
		one := []int{1, 1, 1, 1, 1, 1}
		for name, err := range map[string]error{
			"GatherInPlace": mpi.GatherInPlace(x, b, 0), "GathervInPlace": mpi.GathervInPlace(x, b, one, nil, 0), "ScatterInPlace": mpi.ScatterInPlace(x, b, 0),
			"ScattervInPlace": mpi.ScattervInPlace(x, b, one, nil, 0), "AllgatherInPlace": mpi.AllgatherInPlace(x, b), "AllgathervInPlace": mpi.AllgathervInPlace(x, b, one, nil),
			"AlltoallInPlace": mpi.AlltoallInPlace(x, b), "AlltoallvInPlace": mpi.AlltoallvInPlace(x, b, one, nil), "ReduceInPlace": mpi.ReduceInPlace(x, b, mpi.Sum, 0),
			"AllreduceInPlace": mpi.AllreduceInPlace(x, b, mpi.Sum), "ReduceScatterBlockInPlace": mpi.ReduceScatterBlockInPlace(x, b, mpi.Sum),
			"ReduceScatterInPlace": mpi.ReduceScatterInPlace(x, b, one, mpi.Sum), "Scan": mpi.Scan(x, b, one, mpi.Sum), "ScanInPlace": mpi.ScanInPlace(x, b, mpi.Sum),
			"Exscan": mpi.Exscan(x, b, one, mpi.Sum), "ExscanInPlace": mpi.ExscanInPlace(x, b, mpi.Sum), "ScanValue": err1(mpi.ScanValue(x, 1, mpi.Sum)),
			"Iscan": waited(mpi.Iscan(x, b, one, mpi.Sum)), "ScanInit": started(mpi.ScanInit(x, b, one, mpi.Sum)),
			"Cart": err1(x.Cart([]int{1}, []bool{true}, false)), "DistGraph": err1(x.DistGraph(nil, nil, nil)), "CreateGroup": err1(x.CreateGroup(x.Group(), 0)),
		} {
			if err := wantErr(name, err, mpi.ErrComm); err != nil {
				return err
			}
			if !strings.Contains(err.Error(), "intercommunicator") {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		sum, err := mpi.AllreduceValue(x, 10+c.Rank(), mpi.Sum)
		if want := []int{23, 10, 10}[c.Rank()]; err != nil || sum != want {
			return fmt.Errorf("AllreduceValue: %d, want %d: %w", sum, want, err)
		}
		return all(mpi.Barrier(x), x.Free())
	})
}

// What fails on an intercommunicator, or frees it, touches no other context: its own are its own.
func TestInterContexts(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		x, err := sides(c, 1)
		if err != nil {
			return err
		}
		d, err := x.Dup()
		if err != nil {
			return err
		}
		contexts := []uint64{mpi.Begun(c), mpi.Begun(x), mpi.Begun(d)}
		slices.Sort(contexts)
		if slices.Contains(contexts, 0) || len(slices.Compact(contexts)) != 3 {
			return fmt.Errorf("contexts %x", contexts)
		}
		return all(d.Free(), x.Free())
	})
}
