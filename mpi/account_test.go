package mpi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/internal/testing/world"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// unseen are calls in which ranks disagree and all get away with it, and what is said
// of them: by the comparison in Finalize, or by the watch, which may see two ranks in Finalize first.
var unseen = []struct {
	name, says string
	call       func(c *mpi.Comm) error
}{
	{"each is the root", "call 1, Bcast, root 1, 8 bytes",
		func(c *mpi.Comm) error { return mpi.Bcast(c, []int{c.Rank()}, c.Rank()) }},
	{"one more call", "rank 1", func(c *mpi.Comm) error {
		if c.Rank() == 0 {
			return mpi.Bcast(c, []int{0}, 0)
		}
		return nil
	}},
	{"on a communicator that is freed", "a communicator that was freed", func(c *mpi.Comm) error {
		d, err := c.Dup()
		if err == nil {
			err = mpi.Bcast(d, []int{0}, d.Rank())
		}
		return all(err, d.Free())
	}},
	{"Dup of one rank", "Dup", func(c *mpi.Comm) error {
		if c.Rank() == 1 {
			_, err := c.Dup()
			return err
		}
		return nil
	}},
	{"a call that one group alone makes", "collective calls", func(c *mpi.Comm) error {
		x, err := sides(c, 1)
		if err == nil && c.Rank() == 0 {
			err = mpi.Bcast(x, []int{0}, mpi.Root)
		}
		return err
	}},
	{"a root in each group", "call 1, Bcast, root 0 of the higher group", func(c *mpi.Comm) error {
		x, err := sides(c, 1)
		return all(err, mpi.Bcast(x, []int{0}, []int{mpi.Root, mpi.Root, mpi.ProcNull}[c.Rank()]))
	}},
}

func TestUnseenDisagreement(t *testing.T) {
	for _, x := range unseen {
		t.Run(x.name, func(t *testing.T) {
			c := jobtest.New(3, jobtest.Options{Dir: t.TempDir(), RPI: []string{"shm"}})
			errs := make([]error, len(c.Jobs))
			var running sync.WaitGroup
			for i, j := range c.Jobs {
				running.Go(func() { errs[i] = world.Rank(j, x.call) })
			}
			running.Wait()
			c.Stop()
			for i, err := range errs {
				if err := wantErr("Finalize", err, mpi.ErrMismatch); err != nil || !strings.Contains(errs[i].Error(), x.says) {
					t.Errorf("rank %d: %v", i, errs[i])
				}
			}
			rec := &recorder{TB: t}
			func() {
				defer func() { _ = recover() }()
				mpitest.Run(rec, 3, x.call)
			}()
			if len(rec.errors) != 1 || !strings.Contains(rec.errors[0], mpi.ErrMismatch.Error()) {
				t.Errorf("in a test: %q", rec.errors)
			}
		})
	}
}

// A communicator that has failed is no disagreement, be it known to all or to some.
func TestFailedIsSettled(t *testing.T) {
	for _, frees := range []bool{false, true} {
		mpitest.Run(t, 3, func(w *mpi.Comm) error {
			c, err := oneInUse(w, nil)
			if err != nil {
				return err
			}
			if c.Rank() == 1 {
				err = wantErr("Barrier", mpi.Barrier(c.WithContext(ended())), mpi.ErrDeadline)
			}
			if frees {
				err = all(err, c.Free())
			}
			return err
		})
	}
}

// Others may find that a rank in Finalize has not made their call. Finalize then tells that rank. It does so
// once: a rank that a call has told is not told again.
func TestFinalizeTells(t *testing.T) {
	c := jobtest.New(3, jobtest.Options{Dir: t.TempDir(), RPI: []string{"shm"}})
	errs := make([]error, len(c.Jobs))
	var running sync.WaitGroup
	for i, j := range c.Jobs {
		running.Go(func() {
			errs[i] = world.Rank(j, func(w *mpi.Comm) error {
				if w.Rank() != 1 {
					return nil
				}
				d, err := w.Dup()
				return all(err, wantErr("Barrier", mpi.Barrier(d), mpi.ErrMismatch), wantErr("Barrier", mpi.Barrier(w), mpi.ErrMismatch))
			})
		})
	}
	running.Wait()
	c.Stop()
	for _, i := range []int{0, 2} {
		if err := wantErr("Finalize", errs[i], mpi.ErrMismatch); err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
		if text := fmt.Sprint(errs[i]); strings.Count(text, "communicator failed") != 1 || strings.Count(text, "in the same order") != 1 {
			t.Errorf("it repeats itself: %s", text)
		}
	}
	if errs[1] != nil {
		t.Errorf("rank 1: %v", errs[1])
	}
}
