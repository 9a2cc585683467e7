package cr_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/cr/image"
	"github.com/gorun-mpi/gorun/internal/protocol/ckpt"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/mpi"
)

// pointsOf are the Points of rank's images in all folders of a job, in order.
func pointsOf(t *testing.T, dir string, rank int) (points []uint64) {
	t.Helper()
	for seq := 1; ; seq++ {
		path := filepath.Join(dir, fmt.Sprint(seq), ckpt.ImageName(rank))
		if _, err := os.Stat(path); err != nil {
			return points
		}
		meta, err := image.Verify(path)
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, meta.Point)
	}
}

// With Points, ranks are imaged at every so many, however far one runs ahead of another. What was taken meanwhile by
// hand is one of them.
func TestDuePoints(t *testing.T) {
	for _, every := range []int{1, 4, 7} {
		t.Run(fmt.Sprint("every ", every), func(t *testing.T) {
			const n, iters = 3, 30
			want := make([]int, n)
			c := jobtest.New(n, jobtest.Options{})
			noErrors(t, ranks(c, ring(iters, want, func(int) {}))())
			c.Stop()

			dir, got := t.TempDir(), make([]int, n)
			c = jobtest.New(n, jobtest.Options{Dir: dir, Points: every})
			noErrors(t, ranks(c, ring(iters, got, func(int) {}))())
			c.Stop()
			first := pointsOf(t, dir, 0)
			if len(first) == 0 || first[0] != uint64(every) {
				t.Fatalf("images were taken at Points %v", first)
			}
			for rank := range n {
				for _, p := range pointsOf(t, dir, rank) {
					if p%uint64(every) != 0 {
						t.Errorf("rank %d was imaged at Point %d", rank, p)
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, undisturbed %v", got, want)
			}

			// Restarted at Point every, which is its first: the next is due every Points later.
			images := []string{}
			for rank := range n {
				images = append(images, filepath.Join(dir, "1", ckpt.ImageName(rank)))
			}
			dir = t.TempDir()
			c = jobtest.New(n, jobtest.Options{Dir: dir, Images: images, Points: every})
			noErrors(t, ranks(c, ring(iters, got, func(int) {}))())
			c.Stop()
			for _, p := range pointsOf(t, dir, 1) {
				if (p-1)%uint64(every) != 0 || p == 1 {
					t.Errorf("restarted, it was imaged at Point %d", p)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("restarted %v, undisturbed %v", got, want)
			}
		})
	}
}

// No rank stands at a due Point while another holds checkpoints off and waits for it.
func TestDuePointsAreHeldOff(t *testing.T) {
	dir := t.TempDir()
	c := jobtest.New(2, jobtest.Options{Dir: dir, Points: 2})
	noErrors(t, ranks(c, func(w *mpi.Comm) error {
		r, i := cr.On(w), 0
		if err := r.Register("i", &i); err != nil {
			return err
		}
		if w.Rank() == 0 {
			if err := r.Hold(); err != nil {
				return err
			}
		}
		if err := mpi.Barrier(w); err != nil { // it is held
			return err
		}
		for ; i < 9; i++ {
			if err := r.Point(); err != nil {
				return err
			}
			if err := mpi.Barrier(w); err != nil {
				return err
			}
		}
		if w.Rank() == 0 {
			return r.Release()
		}
		return nil
	})())
	c.Stop()
	if p := pointsOf(t, dir, 0); len(p) > 0 {
		t.Errorf("images were taken at %v", p)
	}
}

// A rank that cannot be imaged lets all go on.
func TestDuePointsWithoutState(t *testing.T) {
	var passed, reverted atomic.Int32
	c := jobtest.New(2, jobtest.Options{Dir: t.TempDir(), Points: 3, OnSend: func(m oob.Msg) {
		switch m.Kind {
		case oob.Pass:
			passed.Add(1)
		case oob.Revert:
			reverted.Add(1)
		}
	}})
	noErrors(t, ranks(c, func(w *mpi.Comm) error {
		for range 9 {
			if err := cr.On(w).Point(); err != nil {
				return err
			}
		}
		return nil
	})())
	c.Stop()
	if reverted.Load() == 0 {
		t.Errorf("no attempt was made; %d passed", passed.Load())
	}
}
