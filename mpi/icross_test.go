package mpi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// crossings returns the collectives that intercommunicators have. The last rank of the group with rank 0 of the world is
// the root, or that of the other group.
func crossings(inter *mpi.Comm, low, k int, first bool) []both {
	root := map[bool]int{true: low - 1, false: inter.Size() - 1}[first]
	ours := (inter.WorldRank(0) < low) == first
	switch {
	case ours && inter.Rank() == inter.Size()-1:
		root = mpi.Root
	case ours:
		root = mpi.ProcNull
	default:
		root = inter.RemoteSize() - 1
	}
	calls := slices.DeleteFunc(everyCollective(k, root), func(x both) bool { return strings.HasSuffix(strings.ToLower(x.name), "scan") })
	for i := range calls {
		calls[i].same = false // there is no call in place
	}
	return calls
}

// What goes on while the program computes gives what the blocking call gives on an intercommunicator, too, and so does what is
// persistent.
func TestInterInFlight(t *testing.T) {
	for _, x := range []struct{ n, low, k int }{{2, 1, 5}, {5, 2, 0}, {5, 2, 700}, {7, 6, 3}} {
		if testing.Short() && x.k > 5 {
			continue
		}
		t.Run(fmt.Sprintf("%d and %d ranks, %d elements", x.low, x.n-x.low, x.k), func(t *testing.T) {
			t.Parallel()
			mpitest.Run(t, x.n, func(c *mpi.Comm) error {
				inter, err := sides(c, x.low)
				if err != nil {
					return err
				}
				for _, first := range []bool{true, false} {
					calls := crossings(inter, x.low, x.k, first)
					if err := all(inFlight(inter, calls, x.k), persistents(inter, calls, x.k)); err != nil {
						return fmt.Errorf("root in the first group %v: %w", first, err)
					}
				}
				return all(interViews(inter), inter.Free())
			})
		})
	}
}

// interViews exchanges columns of which each rank of the other group gets its own.
func interViews(x *mpi.Comm) error {
	n, me := x.RemoteSize(), x.WorldRank(x.Rank())
	theirs := make([]int, n)
	if err := mpi.Allgather(x, []int{me}, theirs); err != nil {
		return err
	}
	columns := func(m []int) (v []mpi.View[int]) {
		for i := range n {
			v = append(v, mpi.View[int]{m, mpi.Vector(3, 1, n).Shift(i)})
		}
		return v
	}
	send, now, later, expect := values2(3*n, func(i int) int { return 100*me + i/n }), make([]int, 3*n), make([]int, 3*n), make([]int, 3*n)
	for i := range expect {
		expect[i] = 100*theirs[i%n] + i/n
	}
	r, err := mpi.Ialltoallw(x, columns(send), columns(later))
	if err := all(err, mpi.Alltoallw(x, columns(send), columns(now)), waited(r, err)); err != nil {
		return err
	}
	return all(want("Alltoallw", now, expect), want("Ialltoallw", later, expect))
}

// A rank that makes another call, or this one with another length or root, is found by those that it would have exchanged
// messages with, and all are told.
func TestInterDisagreesInFlight(t *testing.T) {
	for name, call := range map[string]func(x *mpi.Comm, wrong bool) error{
		"call": func(x *mpi.Comm, wrong bool) error {
			if wrong {
				return waited(mpi.Ibarrier(x))
			}
			return waited(mpi.Iallreduce(x, []int{1}, []int{0}, mpi.Sum))
		},
		"length": func(x *mpi.Comm, wrong bool) error {
			k := map[bool]int{false: 4, true: 3}[wrong]
			return waited(mpi.Iallreduce(x, make([]int, k), make([]int, k), mpi.Sum))
		},
		"argument": func(x *mpi.Comm, wrong bool) error {
			if wrong {
				return waited(mpi.Ibcast(x, []int{1}, 17))
			}
			return waited(mpi.Iallgather(x, []int{1}, make([]int, x.RemoteSize())))
		},
	} {
		t.Run(name, func(t *testing.T) {
			mpitest.RunWithin(t, 20*time.Second, 5, func(c *mpi.Comm) error {
				for _, who := range []int{0, 2, 4} {
					inter, err := sides(c, 2)
					if err != nil {
						return err
					}
					err = call(inter, c.Rank() == who)
					for err == nil { // it may have needed nobody
						err = mpi.Barrier(inter)
					}
					if err := all(mpi.Barrier(c), inter.Free()); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
