package jobtest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/internal/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// TestTopologiesGoOn restarts a job in the middle of calls on an intercommunicator, on a group that only some
// ranks have made a communicator of, and between the neighbours of a grid.
func TestTopologiesGoOn(t *testing.T) {
	for _, route := range routes[:3] {
		t.Run(route[0]+" to "+route[1], func(t *testing.T) {
			c := jobtest.New(4, jobtest.Options{Dir: t.TempDir(), RPI: list(route[0])})
			release := make(chan struct{})
			wait := ranks(c, func(w *mpi.Comm) error { return amongNeighbours(w, release) })
			until(func() bool { return held(c, 0) > 0 && held(c, 1) > 0 && held(c, 2) > 0 })
			for range 2 {
				if err := c.Revive(list(route[1])...); err != nil {
					t.Fatal(err)
				}
			}
			close(release)
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			c.Stop()
		})
	}
}

// amongNeighbours makes all ranks but the last wait for it in each call.
func amongNeighbours(w *mpi.Comm, release chan struct{}) error {
	half, err := w.Split(w.Rank()/2, 0)
	if err != nil {
		return err
	}
	inter, err := mpi.IntercommCreate(half, 0, w, 2-half.WorldRank(0), 1)
	if err != nil {
		return err
	}
	odd, err := w.Group().Include(3, 1)
	if err != nil {
		return err
	}
	ring, err := w.Cart([]int{4}, []bool{true}, false)
	if err != nil {
		return err
	}
	if w.Rank() == 3 {
		<-release
	}
	around, theirs := make([]int, 2), make([]int, 2)
	err = errors.Join(mpi.NeighborAllgather(ring, []int{w.Rank()}, around), mpi.Allgather(inter, []int{w.Rank()}, theirs))
	if err != nil {
		return err
	}
	if around[0] != (w.Rank()+3)%4 || around[1] != (w.Rank()+1)%4 || theirs[0] != 2-half.WorldRank(0) {
		return fmt.Errorf("neighbours %v, of the other group %v", around, theirs)
	}
	if w.Rank()%2 == 1 {
		d, err := w.CreateGroup(odd, 0)
		if err != nil {
			return err
		}
		sum, err := mpi.AllreduceValue(d, w.Rank(), mpi.Sum)
		if err != nil || sum != 4 {
			return fmt.Errorf("sum %d: %w", sum, err)
		}
	}
	return mpi.Barrier(inter)
}
