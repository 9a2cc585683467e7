package jobtest_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/cr/self"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/internal/testing/world"
	"github.com/gorun-mpi/gorun/mpi"
)

// Portable images leave out messages that mean nothing to a program that begins again, such as those of the watch over
// collectives: they would be in the way of another number of ranks. Others are saved.
func TestPassing(t *testing.T) {
	const passing = 0x7770
	letters := &engine.Type{ID: 7, Size: 1, Name: "letter"}
	c := jobtest.New(2, jobtest.Options{Dir: t.TempDir()})
	for _, j := range c.Jobs {
		j.RegisterPassing(passing, "of no use later")
	}
	var there, running sync.WaitGroup
	there.Add(2)
	taken := make(chan struct{})
	errs := make([]error, 2)
	for i, j := range c.Jobs {
		running.Go(func() {
			errs[i] = world.Rank(j, func(c *mpi.Comm) error {
				err := cr.On(c).Register("x", new(int))
				if c.Rank() == 1 {
					err = errors.Join(err, j.Engine.Send(0, passing, 3, letters, []byte("passing"), engine.Standard, nil),
						mpi.Send(c, []int32{5}, 0, 5))
				}
				there.Done()
				for on := true; on && err == nil; {
					select {
					case <-taken:
						on = false
					default:
						err = cr.On(c).Point()
					}
				}
				if c.Rank() == 0 {
					_, got := mpi.Recv(c, make([]int32, 1), 1, 5)
					_, passed := j.Engine.Recv(1, passing, 3, letters, make([]byte, 7), nil)
					err = errors.Join(err, got, passed)
				}
				return err
			})
		})
	}
	there.Wait()
	images, err := c.Checkpoint(false)
	close(taken)
	running.Wait()
	c.Stop()
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	r, err := self.Open(image.Path(images[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if m := r.Messages(); len(m) != 1 || m[0].Tag != 5 {
		t.Errorf("saved: %+v", m)
	}
}
