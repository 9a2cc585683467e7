package jobtest_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// TestGridOnOtherNodes restarts a program from portable images on nodes of other shapes. Its reordered grid, and its
// communicators of nodes, are those of the first run: state and saved messages find their ranks.
func TestGridOnOtherNodes(t *testing.T) {
	lives := [][]int{{0, 1, 0, 1, 0, 1, 0, 1}, {0, 0, 0, 0, 1, 1, 1, 1}, nil}
	var images []string
	for life, nodes := range lives {
		c := jobtest.New(8, jobtest.Options{Dir: t.TempDir(), Images: images, Nodes: nodes, RPI: []string{"mem"}, Crowded: true})
		var over atomic.Bool
		wait := ranks(c, func(w *mpi.Comm) error { return gridded(w, life == 0, &over) })
		var err error
		images, err = c.Checkpoint(false)
		over.Store(true)
		if err := errors.Join(err, wait()); err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		c.Stop()
		r, err := image.Path(images[7]).Open()
		if err != nil {
			t.Fatal(err)
		}
		if noted := r.Meta().Params["nodes"]; noted != "0x1 1x1 0x1 1x1 0x1 1x1 0x1 1x1" {
			t.Errorf("life %d: its image notes the nodes %q", life, noted)
		}
		r.Close()
	}
}

// gridded is a rank that keeps where it is, and has a message under way until the end.
func gridded(w *mpi.Comm, fresh bool, over *atomic.Bool) error {
	grid, err := w.Cart([]int{2, 4}, []bool{true, true}, true)
	if err != nil {
		return err
	}
	near, err := w.SplitType(mpi.SharedMemory, 0)
	if err != nil {
		return err
	}
	at, err := grid.Coords(grid.Rank())
	if err != nil {
		return err
	}
	place := append(slices.Clone(at), near.Rank(), near.Size())
	began := slices.Clone(place)
	state := cr.On(w)
	if err := state.Register("place", &began); err != nil {
		return err
	}
	below, above, err := grid.Shift(1, 1)
	if err == nil && fresh {
		err = errors.Join(mpi.SendValue(grid.Comm, grid.Rank(), above, 4), mpi.SendValue(near, near.Rank(), (near.Rank()+1)%near.Size(), 5))
	}
	for err == nil && !over.Load() {
		err = state.Point()
	}
	if err != nil {
		return err
	}
	if !slices.Equal(began, place) || near.Size() != 4 {
		return fmt.Errorf("it began at %v, and is at %v", began, place)
	}
	if w.Rank() == 1 && slices.Equal(at, []int{0, 1}) {
		return errors.New("the grid is not reordered")
	}
	from, _, err1 := mpi.RecvValue[int](grid.Comm, below, 4)
	beside, _, err2 := mpi.RecvValue[int](near, (near.Rank()+3)%4, 5)
	if err := errors.Join(err1, err2); err != nil || from != below || beside != (near.Rank()+3)%4 {
		return fmt.Errorf("heard of %d, not %d, and of %d: %w", from, below, beside, err)
	}
	return nil
}
