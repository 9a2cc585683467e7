package dist_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/device"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

var triple = device.NewKernel(device.Go("triple", func(w device.Work, x []int64, add int64) {
	for i, end := w.Range(0); i < end; i++ {
		x[i] = 3*x[i] + add
	}
}))

// onDevice is a program whose rows are valid on devices only, of which each life has another number. The first and the last row of the
// array are a halo.
func onDevice(steps int, result *[]int64) func(c *mpi.Comm) error {
	return func(c *mpi.Comm) error {
		const n, width = 10, 4
		ds, err := device.Virtual(1 + c.Size()%2)
		if err != nil {
			return err
		}
		defer ds.Close()
		rows := dist.Even(n, c.Size())
		first, end := rows.Of(c.Rank())
		x := device.NewArray[int64](end-first+2, width)
		own, err := x.Rows(1, 1+end-first).HostW()
		if err != nil {
			return err
		}
		for i := range own {
			own[i] = int64(first*width + i)
		}
		h, err := dist.Held(c, rows, width, x.Rows(1, 1+end-first))
		if err != nil {
			return err
		}
		step, state := 0, cr.On(c)
		if err := errors.Join(state.Register("x", h), state.Register("step", dist.Replicated(&step))); err != nil {
			return err
		}
		for ; step < steps; step++ {
			if err := state.Point(); err != nil {
				return err
			}
			bounds := ds.Split(end - first)
			for i, d := range ds {
				at, to := bounds[i], bounds[i+1]
				if at == to {
					continue
				}
				if _, err := d.Run(triple, []int{(to - at) * width}, nil, x.Rows(1+at, 1+to).InOut(), step); err != nil {
					return err
				}
			}
		}
		if own, err = x.Rows(1, 1+end-first).Host(); err != nil {
			return err
		}
		all, err := dist.Over(c, rows, width, own)
		if err != nil {
			return err
		}
		whole, err := all.Gather(0)
		if c.Rank() == 0 {
			*result = whole
		}
		return err
	}
}

// Arrays of devices go on on other numbers of ranks and devices.
func TestHeld(t *testing.T) {
	var want, got []int64
	mpitest.Run(t, 4, onDevice(9, &want))
	mpitest.Resize(t, 3, []int{4, 7, 3, 1}, onDevice(9, &got))
	if !slices.Equal(got, want) {
		t.Errorf("%v, undisturbed %v", got, want)
	}
}

func TestHeldRefused(t *testing.T) {
	mpitest.Run(t, 1, func(c *mpi.Comm) error {
		x := device.NewArray[int64](4, 2)
		for _, bad := range []struct {
			rows  dist.Rows
			width int
		}{{dist.Rows{0, 4}, 3}, {dist.Rows{0, 5}, 2}, {dist.Rows{0, 4}, 0}, {dist.Rows{0, 2, 4}, 2}} {
			if _, err := dist.Held(c, bad.rows, bad.width, x); !errors.Is(err, dist.ErrRows) {
				return fmt.Errorf("%+v: %v", bad, err)
			}
		}
		return nil
	})
}

// The rows of a device are distributed over the ranks. Their halo is not saved.
func ExampleHeld() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		rows := dist.Even(3, c.Size())
		first, end := rows.Of(c.Rank())
		x := device.NewArray[float64](end-first+2, 5)
		h, err := dist.Held(c, rows, 5, x.Rows(1, 1+end-first))
		if err != nil {
			return err
		}
		err = cr.On(c).Register("x", h)
		fmt.Println(first, end, err)
		return err
	})
	// Output: 0 3 <nil>
}
