package dist_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Halos of any width come from as many ranks as have their rows; what is beyond all rows stays.
func TestExchange(t *testing.T) {
	for _, rows := range []dist.Rows{{0, 3, 6, 9}, {0, 0, 5, 5, 6, 7}, {0, 1, 2, 3, 4}, {0, 4}, {0, 0, 0}} {
		for _, halo := range []int{0, 1, 2, 5} {
			mpitest.Run(t, len(rows)-1, func(c *mpi.Comm) error {
				a, err := dist.New[int32](c, rows, 2, halo)
				if err != nil {
					return err
				}
				first, end := a.Range()
				for turn := range int32(2) {
					for i := first - halo; i < end+halo; i++ {
						copy(a.Row(i), []int32{-1, turn})
						if i >= first && i < end {
							a.Row(i)[0] = int32(i)
						}
					}
					if err := a.Exchange(); err != nil {
						return err
					}
					for i := first - halo; i < end+halo; i++ {
						want := []int32{int32(i), turn}
						if first == end || i < 0 || i >= rows.Total() {
							want[0] = -1
						}
						if !slices.Equal(a.Row(i), want) {
							return fmt.Errorf("rows %v, halo %d: row %d is %v", rows, halo, i, a.Row(i))
						}
					}
				}
				return a.Free()
			})
		}
	}
}

// smooth is a program whose state is distributed: two arrays in turn, of uneven parts, and a count.
func smooth(steps int, result *[]float64, extra func(c *mpi.Comm) error) func(c *mpi.Comm) error {
	return func(c *mpi.Comm) error {
		const n, width = 13, 3
		rows := dist.Even(n, c.Size())
		for r := 1; r < c.Size(); r++ {
			rows[r] = max(rows[r]-1, rows[r-1]) // uneven, and of more ranks than rows some are empty
		}
		now, err := dist.New[float64](c, rows, width, 2)
		if err != nil {
			return err
		}
		next, err := dist.New[float64](c, rows, width, 2)
		if err != nil {
			return err
		}
		first, end := now.Range()
		for i := first; i < end; i++ {
			copy(now.Row(i), []float64{float64(i), float64(i * i), 1})
		}
		step, state := 0, cr.On(c)
		if err := errors.Join(state.Register("x", now), state.Register("step", dist.Replicated(&step))); err != nil {
			return err
		}
		for ; step < steps; step++ {
			if extra != nil {
				if err := extra(c); err != nil {
					return err
				}
			}
			if err := state.Point(); err != nil {
				return err
			}
			if err := now.Start(); err != nil {
				return err
			}
			if err := now.Wait(); err != nil {
				return err
			}
			for i := first; i < end; i++ {
				for j := range width {
					next.Row(i)[j] = now.Row(i)[j]/2 + (now.Row(i - 2)[j]+now.Row(i + 1)[j])/4
				}
			}
			if err := now.Swap(next); err != nil {
				return err
			}
		}
		all, err := now.Gather(0)
		if c.Rank() == 0 {
			*result = all
		}
		return err
	}
}

// Any sequence of numbers of ranks ends with the bits of an undisturbed run.
func TestResize(t *testing.T) {
	var want []float64
	mpitest.Run(t, 4, smooth(12, &want, nil))
	for _, ranks := range [][]int{{4, 8, 3, 1}, {1, 5, 5, 2}, {3, 16}} {
		var got []float64
		mpitest.Resize(t, 3, ranks, smooth(12, &got, nil))
		if !slices.Equal(got, want) {
			t.Errorf("%v ranks: %v, undisturbed %v", ranks, got, want)
		}
	}
}

// caught is a test that may fail.
type caught struct {
	testing.TB
	mu   sync.Mutex
	text string
}

func (c *caught) Errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += fmt.Sprintf(format, args...)
}
func (c *caught) FailNow() {}

// What is in the way of another number of ranks is named. As many as there were go on all the same.
func TestResizeRefused(t *testing.T) {
	var result []float64
	for name, x := range map[string]struct {
		extra func(c *mpi.Comm) error
		want  string
	}{
		"plain": {func(c *mpi.Comm) error {
			if err := cr.On(c).Register("mine", new(int)); err != nil && !strings.Contains(err.Error(), "twice") {
				return err
			}
			return nil
		}, `variable "mine" on all ranks`},
		"unequal": {func(c *mpi.Comm) error {
			v := c.Rank()
			if err := cr.On(c).Register("mine", dist.Replicated(&v)); err != nil && !strings.Contains(err.Error(), "twice") {
				return err
			}
			return nil
		}, `variable "mine" on rank 1`},
		"message": {func(c *mpi.Comm) error {
			if cr.On(c).Restarted() {
				return nil
			}
			return mpi.Send(c, []int{1}, 1-c.Rank(), 5)
		}, "messages were under way to rank 0 when its image was taken, one of 8 bytes from rank 1 with tag 5 on world"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := &caught{TB: t}
			mpitest.Resize(rec, 1, []int{2, 3}, smooth(2, &result, x.extra))
			if !strings.Contains(rec.text, x.want) {
				t.Errorf("%q, want %q", rec.text, x.want)
			}
		})
	}
}

// Misuse is an error of this package, not of a message.
func TestMisuse(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		for _, bad := range []struct {
			rows        dist.Rows
			width, halo int
		}{{dist.Even(4, 3), 1, 0}, {dist.Even(4, 2), 0, 0}, {dist.Even(4, 2), 1, -1}} {
			if _, err := dist.New[int](c, bad.rows, bad.width, bad.halo); !errors.Is(err, dist.ErrRows) {
				return fmt.Errorf("%+v: %v", bad, err)
			}
		}
		for halo := range 2 {
			if _, err := dist.New[string](c, dist.Even(4, 2), 1, halo); !errors.Is(err, mpi.ErrType) {
				return fmt.Errorf("strings: %v", err)
			}
		}
		half, err := c.Split(c.Rank(), 0)
		if err != nil {
			return err
		}
		inter, err := mpi.IntercommCreate(half, 0, c, 1-c.Rank(), 0)
		if err != nil {
			return err
		}
		if _, err := dist.New[int](inter, dist.Even(4, 1), 1, 1); !errors.Is(err, mpi.ErrComm) {
			return fmt.Errorf("an intercommunicator: %v", err)
		}
		if _, err := dist.Over(c, dist.Even(4, 2), 1, []int{1}); !errors.Is(err, dist.ErrRows) {
			return fmt.Errorf("too little memory: %v", err)
		}
		a, err := dist.New[int](c, dist.Even(4, 2), 1, 1)
		if err != nil {
			return err
		}
		b, err := dist.New[int](c, dist.Even(5, 2), 1, 1)
		if err != nil {
			return err
		}
		if err := a.Swap(b); !errors.Is(err, dist.ErrRows) {
			return fmt.Errorf("Swap: %v", err)
		}
		if err := a.Start(); err != nil {
			return err
		}
		for _, err := range []error{a.Start(), a.Swap(a), a.Free()} {
			if !errors.Is(err, dist.ErrActive) {
				return fmt.Errorf("in an exchange: %v", err)
			}
		}
		func() {
			defer func() { recover() }()
			a.Row(7)
			err = errors.New("row 7 is there")
		}()
		if err := errors.Join(err, a.Wait(), a.Free(), b.Free()); err != nil {
			return err
		}
		for range 2 {
			if err := a.Exchange(); !errors.Is(err, mpi.ErrComm) {
				return fmt.Errorf("freed: %v", err)
			}
		}
		return nil
	})
}
