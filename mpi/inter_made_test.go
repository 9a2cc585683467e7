package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

var chained = mpi.Info{"coll.bcast": "chain@64k", "mood": "good"}

// Parts of intercommunicators, and duplicates with hints, do all that those made of two groups do.
func TestInterMade(t *testing.T) {
	for _, x := range []struct{ n, low int }{{2, 1}, {5, 2}, {6, 4}} {
		mpitest.Run(t, x.n, func(c *mpi.Comm) error {
			inter, err := sides(c, x.low)
			if err != nil {
				return err
			}
			places := []int{0, 1, 0, 1, 0, 0}[:x.n] // the nodes of the ranks
			ends, err := inter.Group().Include(map[bool][]int{true: {0}, false: {inter.Size() - 1, 0}}[inter.Size() == 1]...)
			if err := all(err, mpi.SetChoice(c, nil, places)); err != nil {
				return err
			}
			part, err1 := inter.Create(ends)
			node, err2 := inter.SplitType(mpi.SharedMemory, 0)
			hinted, err3 := inter.DupWithInfo(chained)
			again, err4 := hinted.Dup()
			if err := all(err1, err2, err3, err4, hints(hinted), hints(again), expectPart(part, ends, inter), ofOneNode(node, c, places, x.low)); err != nil {
				return err
			}
			for _, d := range []*mpi.Comm{part, node, hinted, again} {
				if d == nil {
					continue
				}
				if err := all(crossing(d, 5, composition), d.Free()); err != nil {
					return fmt.Errorf("%v: %w", d, err)
				}
			}
			return all(emptySide(inter), inter.Free())
		})
	}
}

func hints(c *mpi.Comm) error {
	if h := c.Hints(); !maps.Equal(h, mpi.Info{"coll.bcast": "chain@64k"}) {
		return fmt.Errorf("hints %v", h)
	}
	return nil
}

func expectPart(part *mpi.Comm, g mpi.Group, inter *mpi.Comm) error {
	if g.Rank() < 0 {
		if part != nil {
			return fmt.Errorf("rank %d is not in its group, and gets %v", inter.Rank(), part)
		}
		return nil
	}
	if part.Group().Compare(g) != mpi.Ident || part.RemoteSize() != min(2, inter.RemoteSize()) || part.Rank() != g.Rank() {
		return fmt.Errorf("part of %d and %d ranks, rank %d", part.Size(), part.RemoteSize(), part.Rank())
	}
	return nil
}

// ofOneNode checks the part of an intercommunicator of the first ranks, and the others, that is on a rank's node.
func ofOneNode(part, c *mpi.Comm, places []int, low int) error {
	count := map[bool]int{}
	for r, p := range places {
		if p == places[c.Rank()] {
			count[(r < low) == (c.Rank() < low)]++
		}
	}
	if count[false] == 0 && part == nil {
		return nil
	}
	if part.Size() != count[true] || part.RemoteSize() != count[false] {
		return fmt.Errorf("%d and %d ranks on the node, want %d and %d", part.Size(), part.RemoteSize(), count[true], count[false])
	}
	return nil
}

// emptySide makes nothing of a group without ranks, on either side.
func emptySide(inter *mpi.Comm) error {
	lower := inter.WorldRank(inter.Size()-1) == 0 // see sides
	for _, empty := range []bool{lower, !lower, true} {
		g := inter.Group()
		if empty {
			g = mpi.Group{}
		}
		if d, err := inter.Create(g); err != nil || d != nil {
			return fmt.Errorf("without ranks on a side: %v, %w", d, err)
		}
	}
	return nil
}

// Calls on an intercommunicator that ranks disagree about, and that would wait for ever, are found by the watch. Ranks 0
// and 1 are one group, 2 to 4 the other.
func TestInterWatched(t *testing.T) {
	bcast := func(x *mpi.Comm, root int) error { return mpi.Bcast(x, []int{1}, root) }
	for _, x := range []struct {
		name, says string
		next       bool // all are told in the next calls at the latest
		call       func(x *mpi.Comm, me int) error
	}{
		{"each side waits for the other's root", "root", false, func(x *mpi.Comm, me int) error { return bcast(x, 0) }},
		{"another root than they wait for", "", true, func(x *mpi.Comm, me int) error {
			return bcast(x, []int{mpi.Root, mpi.ProcNull, 0, 0, 0}[me])
		}},
		{"the root does not know", "another rank of the lower group", false, func(x *mpi.Comm, me int) error {
			if err := bcast(x, []int{mpi.ProcNull, mpi.ProcNull, 0, 0, 0}[me]); me >= 2 {
				return err
			}
			return err1(mpi.Recv(x, unit[:0], 0, 0)) // which nobody sends
		}},
		{"two roots", "", true, func(x *mpi.Comm, me int) error { return bcast(x, []int{mpi.Root, mpi.Root, 1, 1, 1}[me]) }},
		{"begun, and ended later", "Igather", true, func(x *mpi.Comm, me int) error {
			return waited(mpi.Igather(x, []int{1}, make([]int, x.RemoteSize()), []int{0, mpi.Root, 1, 1, 1}[me]))
		}},
		{"a duplicate that some have made", "Dup", false, func(x *mpi.Comm, me int) error {
			if me != 1 {
				d, err := x.Dup()
				return all(err, mpi.Barrier(d))
			}
			return mpi.Barrier(x)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			mpitest.RunWithin(t, 20*time.Second, 5, func(c *mpi.Comm) error {
				inter, err := sides(c, 2)
				if err != nil {
					return err
				}
				err = x.call(inter, c.Rank())
				for range 3 { // it may have needed nobody
					if err == nil && x.next {
						err = mpi.Barrier(inter)
					}
				}
				if err := wantErr("the call", err, mpi.ErrMismatch); err != nil {
					return err
				}
				if !strings.Contains(err.Error(), x.says) {
					return fmt.Errorf("it does not say %q: %w", x.says, err)
				}
				return all(wantErr("the next", mpi.Barrier(inter), mpi.ErrPoisoned), mpi.Barrier(c))
			})
		})
	}
}

// Roots that agree are no disagreement, however long the root keeps the others waiting.
func TestInterRootsAgree(t *testing.T) {
	mpitest.RunWithin(t, 20*time.Second, 5, func(c *mpi.Comm) error {
		inter, err := sides(c, 2)
		if err != nil {
			return err
		}
		for _, roots := range [][]int{{mpi.ProcNull, mpi.Root, 0, 0, 0}, {2, 2, mpi.ProcNull, mpi.ProcNull, mpi.Root}} {
			root := roots[c.Rank()]
			if root == mpi.Root {
				looks, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
				_, err := mpi.Recv(c.WithContext(looks), unit[:0], mpi.AnySource, 5)
				cancel()
				if err := wantErr("Recv", err, mpi.ErrDeadline); err != nil {
					return err
				}
			}
			if err := mpi.Scatter(inter, make([]int, inter.RemoteSize()), make([]int, 1), root); err != nil {
				return err
			}
		}
		return inter.Free()
	})
}

// The ranks of the lower and the higher group in all wrong ways: alone, and both.
var misusedBetween = []use{
	everywhere("Comm.Create", func(c *mpi.Comm) error { return err1(c.Create(c.Group())) },
		misuse{"the other group", mpi.ErrGroup, func(c *mpi.Comm) error { return err1(c.Create(c.RemoteGroup())) }}),
	everywhere("Comm.Split", func(c *mpi.Comm) error { return err1(c.Split(0, 0)) },
		misuse{"colour", mpi.ErrComm, func(c *mpi.Comm) error { return err1(c.Split(-5, 0)) }}),
	everywhere("Comm.SplitType", func(c *mpi.Comm) error { return err1(c.SplitType(mpi.SharedMemory, 0)) },
		misuse{"kind", mpi.ErrComm, func(c *mpi.Comm) error { return err1(c.SplitType(77, 0)) }}),
	everywhere("Comm.DupWithInfo", func(c *mpi.Comm) error { return err1(c.DupWithInfo(nil)) },
		misuse{"hint", mpi.ErrInfo, func(c *mpi.Comm) error { return err1(c.DupWithInfo(mpi.Info{"coll.bcast": "by bike"})) }},
		misuse{"other hints", nil, func(c *mpi.Comm) error { return err1(c.DupWithInfo(chained)) }}),
	everywhere("Comm.Merge", func(c *mpi.Comm) error { return err1(c.Merge(true)) },
		misuse{"the other way", nil, func(c *mpi.Comm) error { return err1(c.Merge(false)) }}),
	everywhere("Comm.Dup", func(c *mpi.Comm) error { return err1(c.Dup()) },
		misuse{"another call", nil, func(c *mpi.Comm) error { return mpi.Barrier(c) }}),
	fromAcross("Bcast", func(c *mpi.Comm, root int) error { return mpi.Bcast(c, unit[:0], root) }),
	fromAcross("Reduce", func(c *mpi.Comm, root int) error { return mpi.Reduce(c, unit, make([]int, 1), mpi.Sum, root) }),
	fromAcross("Gather", func(c *mpi.Comm, root int) error { return mpi.Gather(c, unit, blocks(c, 1), root) },
		misuse{"another root", nil, func(c *mpi.Comm) error {
			return mpi.Gather(c, unit, blocks(c, 1), map[bool]int{true: mpi.Root, false: 1}[c.WorldRank(0) == 0])
		}}),
	fromAcross("Scatter", func(c *mpi.Comm, root int) error { return mpi.Scatter(c, blocks(c, 1), make([]int, 1), root) }),
	everywhere("Allgather", func(c *mpi.Comm) error { return mpi.Allgather(c, unit, make([]int, c.RemoteSize())) },
		length(func(c *mpi.Comm) error { return mpi.Allgather(c, unit, make([]int, c.RemoteSize()+1)) })),
}

// fromAcross makes the uses of a call whose root is rank 0 of the lower group.
func fromAcross(name string, call func(c *mpi.Comm, root int) error, wrong ...misuse) use {
	well := func(c *mpi.Comm) error {
		switch {
		case c.WorldRank(0) != 0:
			return call(c, 0)
		case c.Rank() == 0:
			return call(c, mpi.Root)
		}
		return call(c, mpi.ProcNull)
	}
	return use{name, well, true, append(wrong, misuse{"root 17", mpi.ErrRank, func(c *mpi.Comm) error { return call(c, 17) }},
		misuse{"root -9", mpi.ErrRank, func(c *mpi.Comm) error { return call(c, -9) }})}
}

// What one rank alone does wrong on an intercommunicator all ranks of both groups are told.
func TestInterMisused(t *testing.T) {
	for _, u := range misusedBetween {
		t.Run(u.name, func(t *testing.T) {
			t.Parallel()
			mpitest.RunWithin(t, 20*time.Second, 4, func(world *mpi.Comm) error {
				for _, x := range u.wrong {
					for _, who := range []int{1, 3} {
						inter, err := world.Split(world.Rank()/2, 0)
						if err != nil {
							return err
						}
						if inter, err = mpi.IntercommCreate(inter, 0, world, 2-world.Rank()/2*2, 0); err != nil {
							return err
						}
						if err := misusesAlone(inter, &u, &x, world.Rank() == who); err != nil {
							return fmt.Errorf("%s on rank %d alone: %w", x.what, who, err)
						}
					}
				}
				return nil
			})
		})
	}
}

// misusesAlone makes a call on c, wrong on one rank. Every rank is told, in its next call at the latest.
func misusesAlone(c *mpi.Comm, u *use, x *misuse, wrong bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	late := c.WithContext(ctx)
	call := u.well
	if wrong {
		call = x.call
	}
	err := call(late)
	if wrong && x.class != nil && !errors.Is(err, x.class) {
		return fmt.Errorf("error %v, want %v", err, x.class)
	}
	for range 3 { // it may have needed nobody
		if err == nil {
			err = mpi.Barrier(late)
		}
	}
	if err == nil || errors.Is(err, mpi.ErrDeadline) {
		return fmt.Errorf("rank %d gets %v", c.Rank(), err)
	}
	return c.Free()
}
