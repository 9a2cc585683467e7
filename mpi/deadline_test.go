package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/internal/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
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
			if err := jobtest.Rank(j, f); err != nil {
				t.Errorf("rank %d: %v", i, err)
				for _, other := range c.Jobs { // who may wait for it
					other.Engine.Abort(err)
				}
				j.Finalize() // which all must want
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

// late runs receive as rank 0 with a view whose context is done while a long message
// of rank 1, which has been announced, cannot be sent: receive gets it all the same.
// The context is done when receive says so, or at a deadline that is mostly later than
// the message has been matched; where it is not, again gets the message.
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

// What a matched probe has taken is received although the deadline passes: the
// buffer is the caller's after the call, and there is no other way to the message.
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
