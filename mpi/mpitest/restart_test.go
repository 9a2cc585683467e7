package mpitest_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// counter counts to ten, a step for each Point, and sums up over all ranks.
func counter(result, firstStep *[3]atomic.Int64) func(c *mpi.Comm) error {
	return func(c *mpi.Comm) error {
		r, step, sum := cr.On(c), 0, 0
		if err := errors.Join(r.Register("step", &step), r.Register("sum", &sum)); err != nil {
			return err
		}
		for first := true; step < 10; step++ {
			if err := r.Point(); err != nil {
				return err
			}
			if first {
				firstStep[c.Rank()].Store(int64(step))
				first = false
			}
			v, err := mpi.AllreduceValue(c, sum+c.Rank()*step, mpi.Sum)
			if err != nil {
				return err
			}
			sum = v % 1009
		}
		result[c.Rank()].Store(int64(sum))
		return nil
	}
}

// A program goes on from the Point that was named, and ends as an undisturbed one.
func TestRestart(t *testing.T) {
	var expect, at [3]atomic.Int64
	mpitest.Run(t, 3, counter(&expect, &at))
	for _, k := range []int{1, 2, 7, 10} {
		var got, at [3]atomic.Int64
		mpitest.Restart(t, 3, k, counter(&got, &at))
		for r := range got {
			if got[r].Load() != expect[r].Load() || at[r].Load() != int64(k-1) {
				t.Errorf("Point %d, rank %d: %d, not %d; it went on at step %d", k, r, got[r].Load(), expect[r].Load(), at[r].Load())
			}
		}
	}
}

// What keeps a program from a restart fails the test.
func TestRestartFails(t *testing.T) {
	var forgotten atomic.Int64
	for _, x := range []struct {
		name, says string
		f          func(c *mpi.Comm) error
	}{
		{"too few Points", "has returned before it came to that Point", func(c *mpi.Comm) error {
			return errors.Join(cr.On(c).Register("x", new(int)), cr.On(c).Point())
		}},
		{"nothing registered", "has registered nothing", func(c *mpi.Comm) error {
			for range 5 {
				if err := cr.On(c).Point(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"an error after the restart", "rank 1 of 2: no bread", func(c *mpi.Comm) error {
			r := cr.On(c)
			if err := r.Register("x", new(int)); err != nil {
				return err
			}
			for range 5 {
				if err := r.Point(); err != nil {
					return err
				}
			}
			if c.Rank() == 1 && r.Restarted() {
				return errors.New("no bread")
			}
			return mpi.Barrier(c)
		}},
		{"a variable forgotten", "has not claimed", func(c *mpi.Comm) error {
			r := cr.On(c)
			name := fmt.Sprint("x", forgotten.Add(1))
			if err := r.Register(name, new(int)); err != nil {
				return err
			}
			for range 5 {
				if err := r.Point(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"panic", "panic: no milk", func(c *mpi.Comm) error { panic("no milk") }},
	} {
		t.Run(x.name, func(t *testing.T) {
			rec := &recorder{TB: t}
			mpitest.Restart(rec, 2, 3, x.f)
			if !rec.failed || len(rec.errors) != 1 || !strings.Contains(rec.errors[0], x.says) {
				t.Errorf("%q", rec.errors)
			}
		})
	}
}

// Ranks that hang before their Point fail the test before its time is over.
func TestRestartHangs(t *testing.T) {
	rec := &deadlined{recorder{TB: t}}
	mpitest.Restart(rec, 2, 2, func(c *mpi.Comm) error {
		_, err := mpi.Recv(c, []int{0}, 1-c.Rank(), 0)
		return err
	})
	if !rec.failed || len(rec.errors) != 1 || !strings.Contains(rec.errors[0], "in time") {
		t.Errorf("%q", rec.errors)
	}
}

// A buffered message that was received is in the way of no image: the program has no request to end.
func TestRestartAfterBsend(t *testing.T) {
	mpitest.Restart(t, 2, 1, func(c *mpi.Comm) error {
		r := cr.On(c)
		if err := r.Register("x", new(int)); err != nil {
			return err
		}
		buf, ack := make([]int, 100_000), []int{0}
		if c.Rank() == 0 && !r.Restarted() {
			if err := mpi.Bsend(c, buf, 1, 0); err != nil {
				return err
			}
			if _, err := mpi.Recv(c, ack, 1, 1); err != nil {
				return err
			}
		} else if !r.Restarted() {
			if _, err := mpi.Recv(c, buf, 0, 0); err != nil {
				return err
			}
			if err := mpi.Send(c, ack, 0, 1); err != nil {
				return err
			}
		}
		return r.Point()
	})
}
