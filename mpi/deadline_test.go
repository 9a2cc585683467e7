package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/internal/testing/world"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// A collective ends at its deadline although another rank takes nothing, not even
// the reason: only then does the other take anything again.
func TestDeadlineBesideFullChannel(t *testing.T) {
	c := jobtest.New(2, jobtest.Options{Dir: t.TempDir(), RPI: []string{"shm"}})
	begun, shut, over, opened := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	wait := asRanks(t, c, func(w *mpi.Comm) error {
		begin := sync.OnceFunc(func() { close(begun) })
		if w.Rank() == 1 {
			defer begin()
		} else {
			defer close(over)
		}
		side, err := w.Dup()
		if err != nil {
			return err
		}
		if err := mpi.Barrier(side); err != nil {
			return err
		}
		if w.Rank() == 1 {
			begin()
			<-opened // before Finalize, which opens the gate as well
			return nil
		}
		<-shut
		return fillAndGiveUp(w, side)
	})
	<-begun
	c.Jobs[1].Engine.CloseGate()
	close(shut)
	<-over
	c.Jobs[1].Engine.OpenGate()
	close(opened)
	wait()
	c.Stop()
}

// asRanks runs f as every rank of the cluster, Finalize included. If it fails on one,
// the others are ended.
func asRanks(t *testing.T, c *jobtest.Cluster, f func(*mpi.Comm) error) (wait func()) {
	var running sync.WaitGroup
	for i, j := range c.Jobs {
		running.Go(func() {
			if err := world.Rank(j, f); err != nil {
				t.Errorf("rank %d: %v", i, err)
				for _, other := range c.Jobs { // who may wait for it
					other.Engine.Abort(err)
				}
				j.Finalize(0, nil) // which all must want
			}
		})
	}
	return running.Wait
}

// fillAndGiveUp sends rank 1 all that it takes, and then begins a collective whose
// deadline has passed.
func fillAndGiveUp(w, side *mpi.Comm) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	for err := error(nil); err == nil; {
		if err = mpi.Send(w.WithContext(ctx), make([]byte, 8), 1, 0); err != nil && !errors.Is(err, mpi.ErrDeadline) {
			return err
		}
	}
	if err := mpi.Barrier(side.WithContext(ctx)); !errors.Is(err, mpi.ErrDeadline) {
		return fmt.Errorf("Barrier: %v", err)
	}
	return nil
}

// late runs receive as rank 0. A long message of rank 1 has been announced and cannot be sent yet. The context
// of the view that receive uses is done meanwhile, and receive gets the message all the same. The context ends
// when receive says so, or at a deadline. The deadline is mostly later than the match. Where it is not, again
// gets the message.
func late(t *testing.T, within time.Duration, receive func(c *mpi.Comm, done context.CancelFunc) error, again func(c *mpi.Comm) error) {
	c := jobtest.New(2, jobtest.Options{Dir: t.TempDir(), RPI: []string{"shm"}})
	announced, shut, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	wait := asRanks(t, c, func(w *mpi.Comm) error {
		if w.Rank() == 1 {
			r, err := mpi.Isend(w, long(), 0, 0)
			close(announced)
			if err != nil {
				return err
			}
			<-shut
			_, err = r.Wait()
			return err
		}
		<-shut
		defer close(over)
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		err := receive(w.WithContext(ctx), cancel)
		if errors.Is(err, mpi.ErrDeadline) && again != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			return again(w.WithContext(ctx))
		}
		return err
	})
	<-announced
	c.Jobs[1].Engine.CloseGate()
	close(shut)
	select {
	case <-over: // too early, or it did not get so far in the time that it had
	case <-time.After(60 * time.Millisecond):
	}
	c.Jobs[1].Engine.OpenGate()
	wait()
	c.Stop()
}

func long() []int32 {
	p := make([]int32, 1<<18)
	for i := range p {
		p[i] = int32(i)
	}
	return p
}

// A message that a matched probe has taken is received although the deadline passes. The buffer belongs to the
// caller after the call, and there is no other way to the message.
func TestMatchedBeforeDeadline(t *testing.T) {
	late(t, time.Hour, func(c *mpi.Comm, done context.CancelFunc) error {
		m, st, err := c.Mprobe(1, 0)
		if err != nil {
			return err
		}
		done()
		buf := make([]int32, st.Bytes/4)
		if _, err := mpi.Mrecv(m, buf); err != nil {
			return err
		}
		return whole(buf)
	}, nil)
	alloc := func(c *mpi.Comm) error {
		buf, _, err := mpi.RecvAlloc[int32](c, 1, 0)
		if err != nil {
			return err
		}
		return whole(buf)
	}
	late(t, 20*time.Millisecond, func(c *mpi.Comm, _ context.CancelFunc) error { return alloc(c) }, alloc)
}

// The message that a Sendrecv receives is not lost when the deadline passes while it
// is on its way.
func TestSendrecvAtDeadline(t *testing.T) {
	both := func(c *mpi.Comm) error {
		buf := make([]int32, 1<<18)
		if _, err := mpi.Sendrecv(c, buf[:0], mpi.ProcNull, 0, buf, 1, 0); err != nil {
			return err
		}
		return whole(buf)
	}
	late(t, 20*time.Millisecond, func(c *mpi.Comm, _ context.CancelFunc) error { return both(c) }, both)
}

func whole(p []int32) error {
	if !slices.Equal(p, long()) {
		return errors.New("the message is not whole")
	}
	return nil
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

// A Sendrecv that gives up has given its buffer back: a later message is for another receive.
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
		return all(err, follows("late", mpi.Barrier(c)), follows("p2p", mpi.Send(c, []int{1}, 1, 0)))
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
		_, pending := mpi.Recv(c, []int{0}, 0, 0)
		return all(follows("Send", mpi.Send(c, []int{1}, 1, 0)), follows("Recv", pending), follows("Barrier", mpi.Barrier(c)),
			mpi.SendValue(world, true, 0, 0))
	}
	return all(follows("elsewhere", mpi.Barrier(c)), follows("Send", mpi.Send(c, []int{1}, 1, 0)))
}

// Whoever is told by a collective that another rank has given it up is refused all later calls, also those of which that
// rank's news have not arrived.
func TestCollectiveHeard(t *testing.T) {
	mpitest.Run(t, 2, func(world *mpi.Comm) error {
		c, err := world.Dup()
		if err != nil {
			return err
		}
		mpi.Hear(c, 3)
		begun := func() error {
			_, err := mpi.Ibarrier(c)
			return err
		}
		return all(follows("Barrier", mpi.Barrier(c)), follows("Send", mpi.Send(c, []int{1}, c.Rank(), 0)), follows("Ibarrier", begun()))
	})
}

// A rank that hears of a duplicate that other ranks have not made fails what it was made of, too, and all else that
// was made of that, whatever news come first.
func TestMadeHeard(t *testing.T) {
	mpitest.Run(t, 2, func(world *mpi.Comm) error {
		c, err1 := world.Dup()
		d, err2 := c.Dup()
		sibling, err3 := c.Dup()
		if err := all(err1, err2, err3); err != nil {
			return err
		}
		mpi.HearMade(d, c, "rank 1 is in Dup")
		for _, err := range []error{mpi.Barrier(d), mpi.Barrier(c), mpi.Barrier(sibling)} {
			if err := all(wantErr("Barrier", err, mpi.ErrMismatch), wantErr("Barrier", err, mpi.ErrPoisoned)); err != nil {
				return err
			}
		}
		return mpi.Barrier(world)
	})
}

// A rank that knows that an intercommunicator has failed does no part of a call on it, not even within its own group.
func TestInterHeard(t *testing.T) {
	mpitest.Run(t, 4, func(world *mpi.Comm) error {
		inter, err := sides(world, 2)
		if err != nil {
			return err
		}
		if world.Rank() == 0 {
			mpi.Hear(inter, 3)
			return all(follows("Barrier", mpi.Barrier(inter)), mpi.Barrier(world))
		}
		if err := mpi.Barrier(world); err != nil || world.Rank() > 1 {
			return err
		}
		return wantErr("Barrier", mpi.Barrier(inter), mpi.ErrPoisoned)
	})
}

// follows looks at the error of a call on a communicator on which rank 3 has given a
// collective up: it names that rank, and is none of what befell it alone.
func follows(what string, err error) error {
	if errors.Is(err, mpi.ErrDeadline) || errors.Is(err, context.Canceled) || !strings.Contains(fmt.Sprint(err), "rank 3") {
		return fmt.Errorf("%s: %v", what, err)
	}
	return all(wantErr(what, err, mpi.ErrPoisoned), wantErr(what, err, mpi.ErrGaveUp))
}

// Where the deadlines of all pass at the same time, each has its own error although it
// hears of another's first.
func TestDeadlineOfAll(t *testing.T) {
	mpitest.Run(t, 3, func(world *mpi.Comm) error {
		c, err := oneInUse(world, nil)
		if err != nil {
			return err
		}
		if c.Rank() == 2 { // never calls
			return mpi.Barrier(world)
		}
		if c.Rank() == 1 {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			err = mpi.Barrier(c.WithContext(ctx))
		} else {
			ctx := &unnoticed{Context: context.Background()}
			view := c.WithContext(ctx)
			ctx.over = true
			if err = mpi.Barrier(view); !errors.Is(err, mpi.ErrGaveUp) {
				return fmt.Errorf("it has not heard of rank 1: %w", err)
			}
		}
		return all(wantErr("Barrier", err, mpi.ErrDeadline), wantErr("Barrier", err, context.Canceled), mpi.Barrier(world))
	})
}

// unnoticed is a context whose end nobody is told of.
type unnoticed struct {
	context.Context
	over bool
}

func (u *unnoticed) Done() <-chan struct{} { return make(chan struct{}) }

func (u *unnoticed) Err() error {
	if u.over {
		return context.Canceled
	}
	return nil
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
