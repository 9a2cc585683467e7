package jobtest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// TestTopologiesGoOn restarts a job in the middle of calls on an intercommunicator, on a group that only some
// ranks have made a communicator of, and between the neighbours of a grid.
func TestTopologiesGoOn(t *testing.T) { goesOn(t, routes[:3], amongNeighbours) }

// TestPartsOfGroupsGoOn restarts a job in the middle of calls that make parts of an intercommunicator.
func TestPartsOfGroupsGoOn(t *testing.T) { goesOn(t, routes[1:2], partsOfGroups) }

// goesOn restarts a job twice while the last of four ranks keeps the others waiting.
func goesOn(t *testing.T, routes [][2]string, program func(w *mpi.Comm, release chan struct{}) error) {
	for _, route := range routes {
		t.Run(route[0]+" to "+route[1], func(t *testing.T) {
			c := jobtest.New(4, jobtest.Options{Dir: t.TempDir(), RPI: list(route[0])})
			release := make(chan struct{})
			wait := ranks(c, func(w *mpi.Comm) error { return program(w, release) })
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

// partsOfGroups makes all ranks but the last wait for it in a call that makes a communicator. What they disagree about
// afterwards is found, although no message tells.
func partsOfGroups(w *mpi.Comm, release chan struct{}) error {
	half, err := w.Split(w.Rank()/2, 0)
	if err != nil {
		return err
	}
	inter, err := mpi.IntercommCreate(half, 0, w, 2-half.WorldRank(0), 1)
	if err != nil {
		return err
	}
	last, err := inter.Group().Include(1)
	if err != nil {
		return err
	}
	if w.Rank() == 3 {
		<-release
	}
	part, err := inter.Create(last)
	node, err2 := inter.SplitType(mpi.SharedMemory, 0)
	again, err3 := inter.DupWithInfo(mpi.Info{"coll.bcast": "chain@64k"})
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	theirs := make([]int, 2)
	for _, c := range []*mpi.Comm{node, again} {
		if err := mpi.Allgather(c, []int{w.Rank()}, theirs); err != nil || theirs[1] != theirs[0]+1 || theirs[0] != 2-half.WorldRank(0) {
			return fmt.Errorf("%v on %v: %w", theirs, c, err)
		}
	}
	if (part != nil) != (inter.Rank() == 1) {
		return fmt.Errorf("rank %d: part %v", w.Rank(), part)
	}
	if part != nil {
		if err := mpi.Allgather(part, []int{w.Rank()}, theirs[:1]); err != nil || theirs[0] != 4-w.Rank() {
			return fmt.Errorf("%v in the part: %w", theirs[:1], err)
		}
	}
	if err := mpi.Bcast(again, []int{1}, 0); !errors.Is(err, mpi.ErrMismatch) {
		return fmt.Errorf("each group waits for the other: %v", err)
	}
	return nil
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
