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

// Ranks that do not make the same collective call get ErrMismatch, on all
// sides that are in it, be it by the first message or by the watch.
func TestMismatch(t *testing.T) {
	sum := mpi.Sum[int]()
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
		if err := mpi.Barrier(c); err == nil || !strings.Contains(err.Error(), "or one before") {
			return fmt.Errorf("Barrier after another call that differed: %v", err)
		}
		return nil
	})
}

// scatterOfTwo is a Scatter of which rank 2 of three takes itself for the root.
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
	if err := wantErr("the next", mpi.Barrier(c), mpi.ErrPoisoned); err != nil {
		return err
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

// Who waits for ranks that are in Finalize, after a call that was another for
// them or without it, is told.
func TestMismatchBeforeFinalize(t *testing.T) {
	for name, call := range map[string]func(c *mpi.Comm) error{
		"another root": func(c *mpi.Comm) error {
			return mpi.ReduceInPlace(c, make([]int, 1), mpi.Sum[int](), c.Rank()/2)
		},
		"no call": func(c *mpi.Comm) error {
			if c.Rank() == 2 {
				return nil
			}
			return mpi.ReduceInPlace(c, make([]int, 1), mpi.Sum[int](), 0)
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

// A rank whose arguments are wrong gets its error at once, and those that wait
// for it in the call are told although it calls nothing further, or gives the
// communicator up.
func TestRefusedOnOneRank(t *testing.T) {
	sum := mpi.Sum[int]()
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

func TestDeadline(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		view := c.WithContext(over)
		_, err := mpi.Recv(view, []int{0}, 1-c.Rank(), 0)
		if err := all(wantErr("Recv", err, mpi.ErrDeadline), wantErr("Recv", err, context.Canceled)); err != nil {
			return err
		}
		_, err = view.Probe(1-c.Rank(), 0)
		if err := wantErr("Probe", err, mpi.ErrDeadline); err != nil {
			return err
		}
		// A receive that gives up does not take a message that comes later.
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := mpi.Recv(c.WithContext(ctx), []int{0}, 1-c.Rank(), 0)
			done <- err
		}()
		cancel()
		if err := all(wantErr("blocked Recv", <-done, mpi.ErrDeadline), mpi.Barrier(c)); err != nil {
			return err
		}
		other := 1 - c.Rank()
		got := []int{0}
		if _, err = mpi.Sendrecv(c, []int{7}, other, 0, got, other, 0); err != nil || got[0] != 7 {
			return fmt.Errorf("%v %w", got, err)
		}
		return nil
	})
}

// A Sendrecv that gives up has given its buffer back: what comes later is for
// another receive.
func TestSendrecvGivesUp(t *testing.T) {
	for _, n := range []int{1, 100_000} {
		mpitest.Run(t, 2, func(c *mpi.Comm) error {
			if c.Rank() == 1 {
				_, err := mpi.Recv(c, []int{0}, 0, 0)
				return all(err,
					mpi.SendValue(c, true, 0, 1), // cancel now
					second(mpi.RecvValue[bool](c, 0, 2)),
					mpi.Send(c, values(n, 1, func(i int) int { return i }), 0, 3))
			}
			ctx, cancel := context.WithCancel(context.Background())
			told := make(chan error, 1)
			go func() {
				told <- second(mpi.RecvValue[bool](c, 1, 1))
				cancel()
			}()
			given, later := make([]int, n), make([]int, n)
			_, err := mpi.Sendrecv(c.WithContext(ctx), []int{1}, 1, 0, given, 1, 3)
			if err := all(wantErr("Sendrecv", err, mpi.ErrDeadline), <-told, mpi.SendValue(c, true, 1, 2)); err != nil {
				return err
			}
			_, err = mpi.Recv(c, later, 1, 3)
			return all(err, want("given up", given, make([]int, n)), want("later", later, values(n, 1, func(i int) int { return i })))
		})
	}
}

func second[T any](_ T, _ mpi.Status, err error) error { return err }

// A collective that is cancelled on one rank fails on all, and for good.
func TestCancelledCollective(t *testing.T) {
	for _, table := range tables {
		mpitest.Run(t, 4, func(world *mpi.Comm) error { return cancelled(world, table) })
	}
}

func cancelled(world *mpi.Comm, table map[string]string) error {
	c, err := oneInUse(world, table)
	if err != nil {
		return err
	}
	switch c.Rank() {
	case 0: // never calls
		_, _, err := mpi.RecvValue[bool](world, 3, 0)
		return all(err, wantErr("late", mpi.Barrier(c), mpi.ErrPoisoned), wantErr("p2p", mpi.Send(c, []int{1}, 1, 0), mpi.ErrPoisoned))
	case 3:
		ctx, cancel := context.WithCancel(context.Background())
		entered := make(chan struct{})
		go func() {
			<-entered
			cancel()
		}()
		close(entered)
		err := mpi.Barrier(c.WithContext(ctx))
		if err := all(wantErr("cancelled", err, mpi.ErrDeadline), wantErr("why", err, context.Canceled)); err != nil {
			return err
		}
		return mpi.SendValue(world, true, 0, 0)
	}
	err = mpi.Barrier(c)
	return all(wantErr("elsewhere", err, mpi.ErrPoisoned), wantErr("class", err, mpi.ErrDeadline))
}

// A rank whose partner has given up, and does not say why, waits for the reason
// until its own context ends and no longer.
func TestDeadlineWhileWaitingForReason(t *testing.T) {
	mpitest.Run(t, 2, func(world *mpi.Comm) error {
		c, err := oneInUse(world, nil)
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			return all(mpi.GiveUp(c, 0), mpi.Barrier(world))
		}
		if err := mpi.SeeGivenUp(c, 1); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			for ctx.Err() == nil && !mpi.AwaitsReason(c) {
				runtime.Gosched()
			}
			cancel()
		}()
		err = mpi.Bcast(c.WithContext(ctx), make([]byte, 1<<20), 1)
		return all(wantErr("Bcast", err, mpi.ErrDeadline), wantErr("why", err, mpi.ErrCanceled), mpi.Barrier(world))
	})
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
