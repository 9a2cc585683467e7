package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Ranks that do not make the same collective call all get ErrMismatch, from the first message or from the
// watch.
func TestMismatch(t *testing.T) {
	sum := mpi.Sum[int]
	ints := func(n int) []int { return make([]int, n) }
	for _, x := range []struct {
		name  string
		ranks int
		call  func(c *mpi.Comm) error
	}{
		{"different calls", 2, func(c *mpi.Comm) error {
			if c.Rank() == 0 {
				return mpi.AllreduceInPlace(c, ints(1), sum)
			}
			return mpi.Barrier(c)
		}},
		{"lengths", 3, func(c *mpi.Comm) error { return mpi.AllreduceInPlace(c, ints(c.Rank()+1), sum) }},
		{"long lengths", 2, func(c *mpi.Comm) error { return mpi.AllreduceInPlace(c, ints(100_000+c.Rank()), sum) }},
		{"types", 2, func(c *mpi.Comm) error {
			if c.Rank() == 0 {
				return mpi.AllgatherInPlace(c, ints(2))
			}
			return mpi.AllgatherInPlace(c, make([]float64, 2))
		}},
		{"each takes the other for the root", 2, func(c *mpi.Comm) error { return mpi.Bcast(c, ints(1), 1-c.Rank()) }},
		{"three wait for nobody", 3, func(c *mpi.Comm) error { return mpi.Bcast(c, ints(1), (c.Rank()+1)%3) }},
		{"long, each the root", 2, func(c *mpi.Comm) error { return mpi.Bcast(c, ints(100_000), c.Rank()) }},
		{"lengths that are done differently", 4, func(c *mpi.Comm) error {
			return mpi.AllreduceInPlace(c, ints(1+c.Rank()/3*50_000), sum)
		}},
		{"roots of Reduce", 4, func(c *mpi.Comm) error { return mpi.ReduceInPlace(c, ints(1), sum, c.Rank()/3) }},
		{"lengths of Alltoall", 4, func(c *mpi.Comm) error { return mpi.AlltoallInPlace(c, ints(4+c.Rank()/3*4000)) }},
		{"lengths of ReduceScatter", 3, func(c *mpi.Comm) error {
			return mpi.ReduceScatterBlockInPlace(c, ints(3+c.Rank()/2*30_000), sum)
		}},
		{"blocks of Allgather", 5, func(c *mpi.Comm) error { return mpi.AllgatherInPlace(c, ints(5+c.Rank()/4*5)) }},
		{"Scan and Exscan", 3, func(c *mpi.Comm) error {
			if c.Rank() == 1 {
				return mpi.ExscanInPlace(c, ints(1), sum)
			}
			return mpi.ScanInPlace(c, ints(1), sum)
		}},
		{"operators", 3, func(c *mpi.Comm) error { return mpi.AllreduceInPlace(c, ints(1), sumOrMax(c)) }},
		{"operators of long buffers", 4, func(c *mpi.Comm) error { return mpi.AllreduceInPlace(c, ints(50_000), sumOrMax(c)) }},
		{"operators of Reduce", 3, func(c *mpi.Comm) error { return mpi.ReduceInPlace(c, ints(1), sumOrMax(c), 0) }},
		{"operators of Scan", 3, func(c *mpi.Comm) error { return mpi.ScanInPlace(c, ints(1), sumOrMax(c)) }},
		{"operators of ReduceScatter", 2, func(c *mpi.Comm) error { return mpi.ReduceScatterBlockInPlace(c, ints(4), sumOrMax(c)) }},
		{"operators that commute or not", 2, func(c *mpi.Comm) error {
			return mpi.AllreduceInPlace(c, ints(1), mpi.OpFunc(sum().Apply, c.Rank() == 0))
		}},
		{"Alltoallv", 2, func(c *mpi.Comm) error {
			return mpi.Alltoallv(c, ints(2), []int{1, 1}, nil, ints(2+c.Rank()), []int{1 + c.Rank(), 1}, nil)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			for i, v := range slices.Concat(variants(), tables) {
				mpitest.Run(t, x.ranks, func(world *mpi.Comm) error {
					if err := mpi.SetChoice(world, v, places(x.ranks)[max(i%4-1, 0)]); err != nil {
						return err
					}
					return mismatch(world, i%2 == 0, x.call)
				})
			}
		})
	}
}

// Turns find out by their tags what ranks have disagreed about in messages.
func TestMismatchBeforeTurn(t *testing.T) {
	table := map[string]string{"coll.barrier": "shared", "coll.scatter": "linear"}
	mpitest.Run(t, 3, func(world *mpi.Comm) error {
		if err := mpi.SetChoice(world, table, nil); err != nil {
			return err
		}
		return mismatch(world, false, scatterOfTwo)
	})
	mpitest.Run(t, 3, func(world *mpi.Comm) error {
		c, err := oneInUse(world, table)
		if err != nil {
			return err
		}
		if err := scatterOfTwo(c); err != nil {
			return err
		}
		if err := mpi.Barrier(c); err == nil || !strings.Contains(err.Error(), "another root: ") && !strings.Contains(err.Error(), "or one before") {
			return fmt.Errorf("Barrier after another call that differed: %v", err)
		}
		return nil
	})
}

// scatterOfTwo is a Scatter of three ranks. Rank 2 takes itself for the root, the others take rank 0.
func scatterOfTwo(c *mpi.Comm) error {
	return mpi.Scatter(c, make([]int, 3), make([]int, 1), c.Rank()/2*2)
}

// mismatch makes a call in which the ranks disagree.
// fresh: it is the communicator's first.
func mismatch(world *mpi.Comm, fresh bool, call func(c *mpi.Comm) error) error {
	c, err := world.Dup()
	if err != nil {
		return err
	}
	// Some get away with the first call; with the second at the latest all know.
	if !fresh {
		err = mpi.Barrier(c) // which the others' next may come to
	}
	if err == nil {
		err = call(c)
	}
	if err == nil {
		err = mpi.Barrier(c)
	}
	if err := wantErr("the call", err, mpi.ErrMismatch); err != nil {
		return err
	}
	if !strings.Contains(err.Error(), "same collective calls in the same order") {
		return fmt.Errorf("no remedy: %v", err)
	}
	next := mpi.Barrier(c)
	if err := wantErr("the next", next, mpi.ErrPoisoned); err != nil {
		return err
	}
	if !strings.HasPrefix(next.Error(), "mpi: Barrier(") {
		return fmt.Errorf("the next call's error does not name it: %v", next)
	}
	return mpi.Barrier(world) // others are not concerned
}

// Several find out what is wrong at the same time, as a caller and the watch may.
// None goes on before the communicator has failed.
func TestPoisonedOnReturn(t *testing.T) {
	mpitest.Run(t, 2, func(world *mpi.Comm) error {
		for range 400 {
			c, err := world.Dup()
			if err != nil {
				return err
			}
			start, told := make(chan bool), make(chan error)
			for range 4 {
				go func() {
					<-start
					told <- wantErr("the next call", mpi.Poison(c, mpi.ErrMismatch), mpi.ErrPoisoned)
				}()
			}
			close(start)
			if err := errors.Join(<-told, <-told, <-told, <-told); err != nil {
				return err
			}
		}
		return mpi.Barrier(world)
	})
}

// What is wrong on a communicator that rank 0 has not made yet is found when it has.
func TestMisuseBeforeTheOthersCome(t *testing.T) {
	mpitest.RunWithin(t, 20*time.Second, 2, func(c *mpi.Comm) error {
		if err := mpi.Barrier(c); err != nil { // the watch looks from here on
			return err
		}
		for c.Rank() == 0 && mpi.EarlyReports(c) == 0 {
			runtime.Gosched()
		}
		d, err := c.Dup()
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			return wantErr("the wrong root", mpi.Bcast(d, make([]int, 1), -1), mpi.ErrRank)
		}
		return wantErr("the others", mpi.Barrier(d), mpi.ErrMismatch)
	})
}

// A rank that waits for ranks in Finalize is told. They made another call before Finalize, or none.
func TestMismatchBeforeFinalize(t *testing.T) {
	for name, call := range map[string]func(c *mpi.Comm) error{
		"another root": func(c *mpi.Comm) error {
			return mpi.ReduceInPlace(c, make([]int, 1), mpi.Sum, c.Rank()/2)
		},
		"no call": func(c *mpi.Comm) error {
			if c.Rank() == 2 {
				return nil
			}
			return mpi.ReduceInPlace(c, make([]int, 1), mpi.Sum, 0)
		},
	} {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprint(name, first), func(t *testing.T) {
				mpitest.Run(t, 3, func(c *mpi.Comm) error {
					if !first {
						if err := mpi.Barrier(c); err != nil {
							return err
						}
					}
					err := call(c)
					mpi.Finalizing(c)
					if c.Rank() == 0 {
						return wantErr("the call", err, mpi.ErrMismatch)
					}
					return nil
				})
			})
		}
	}
}

// A rank whose arguments are wrong gets its error at once. The ranks that wait for it in the call are told,
// even if it makes no further call, or frees the communicator.
func TestRefusedOnOneRank(t *testing.T) {
	sum := mpi.Sum[int]
	for _, x := range []struct {
		name    string
		refused error
		call    func(c *mpi.Comm, bad int) error
	}{
		{"Allreduce", mpi.ErrCount, func(c *mpi.Comm, bad int) error {
			recv := make([]int, 3)
			if c.Rank() == bad {
				recv = recv[:2]
			}
			return mpi.Allreduce(c, make([]int, 3), recv, sum)
		}},
		{"Bcast", mpi.ErrRank, func(c *mpi.Comm, bad int) error {
			if c.Rank() == bad {
				return mpi.Bcast(c, make([]int, 3), 77)
			}
			return mpi.Bcast(c, make([]int, 3), bad)
		}},
	} {
		for bad := range 2 {
			t.Run(fmt.Sprint(x.name, bad), func(t *testing.T) {
				for i, table := range tables {
					mpitest.Run(t, 3, func(world *mpi.Comm) error {
						c, err := oneInUse(world, table)
						if err != nil {
							return err
						}
						if c.Rank() != bad {
							return wantErr("the call", x.call(c, bad), mpi.ErrMismatch)
						}
						err = wantErr("the call", x.call(c, bad), x.refused)
						if i%2 == 0 {
							err = all(err, c.Free())
						}
						return err
					})
				}
			})
		}
	}
}

// Who waits in a collective on a communicator that another rank has freed is told: when that rank makes the call as
// well, and when it is in Finalize.
func TestFreedOnOneRank(t *testing.T) {
	for name, then := range map[string]func(world, freed *mpi.Comm) error{
		"calls": func(_, freed *mpi.Comm) error { return wantErr("on a freed one", mpi.Barrier(freed), mpi.ErrComm) },
		"begins": func(_, freed *mpi.Comm) error {
			return wantErr("on a freed one", err1(mpi.Ibarrier(freed)), mpi.ErrComm)
		},
		"splits":    func(_, freed *mpi.Comm) error { return wantErr("on a freed one", err1(freed.Split(0, 0)), mpi.ErrComm) },
		"finalizes": func(world, _ *mpi.Comm) error { mpi.Finalizing(world); return nil },
	} {
		for who := range 2 {
			for _, used := range []bool{false, true} {
				t.Run(fmt.Sprint(name, who, used), func(t *testing.T) {
					mpitest.RunWithin(t, 20*time.Second, 3, func(world *mpi.Comm) error {
						c, err := world.Dup()
						if err == nil && used {
							err = mpi.Barrier(c)
						}
						if err != nil {
							return err
						}
						if c.Rank() == who {
							return all(c.Free(), then(world, c))
						}
						return wantErr("the others", mpi.Barrier(c), mpi.ErrMismatch)
					})
				})
			}
		}
	}
}

// A rank that has made all its calls may free the communicator and wait in Finalize as long as others need for theirs.
func TestFreedEarly(t *testing.T) {
	mpitest.RunWithin(t, 20*time.Second, 3, func(world *mpi.Comm) error {
		late, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond) // several looks
		defer cancel()
		for root := range 3 {
			c, err := world.Dup()
			if err != nil {
				return err
			}
			if c.Rank() != root {
				<-late.Done()
			}
			if err := all(mpi.Bcast(c, make([]int, 3), root), mpi.Reduce(c, unit, make([]int, 1), mpi.Sum, (root+1)%3), c.Free()); err != nil {
				return err
			}
		}
		return nil
	})
}

// oneInUse returns a communicator that has worked with a table already.
func oneInUse(world *mpi.Comm, table map[string]string) (*mpi.Comm, error) {
	if err := mpi.SetChoice(world, table, nil); err != nil {
		return nil, err
	}
	c, err := world.Dup()
	if err != nil {
		return nil, err
	}
	return c, mpi.Barrier(c)
}

// Where all ranks make the same mistake the communicator stays of use.
func TestRefusedOnAllRanks(t *testing.T) {
	mpitest.Run(t, 3, func(c *mpi.Comm) error {
		if err := wantErr("Allgather", mpi.Allgather(c, make([]int, 1), make([]int, 2+c.Rank()/2*2)), mpi.ErrCount); err != nil {
			return err
		}
		_, err := mpi.Recv(c.WithContext(twoLooks(t)), make([]int, 1), mpi.AnySource, 5)
		if err := wantErr("Recv", err, mpi.ErrDeadline); err != nil {
			return err
		}
		return mpi.Barrier(c)
	})
}

// twoLooks is done when the watch has looked at all communicators twice.
func twoLooks(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 1100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestOthersAreAborted(t *testing.T) {
	rec := &recorder{TB: t}
	blocked := make([]error, 3)
	func() {
		defer func() { _ = recover() }()
		mpitest.Run(rec, 3, func(c *mpi.Comm) error {
			if c.Rank() == 1 {
				return errors.New("it broke")
			}
			_, blocked[c.Rank()] = mpi.Recv(c, []int{0}, mpi.AnySource, 0)
			return blocked[c.Rank()]
		})
	}()
	if len(rec.errors) != 1 || !strings.Contains(rec.errors[0], "rank 1 of 3: it broke") || !rec.failed {
		t.Errorf("reported: %q", rec.errors)
	}
	for _, r := range []int{0, 2} {
		if err := wantErr("blocked rank", blocked[r], mpi.ErrAborted); err != nil {
			t.Error(err)
		}
	}
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors []string
	failed bool
}

func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}
func (r *recorder) FailNow() { r.failed = true; panic("FailNow") }
