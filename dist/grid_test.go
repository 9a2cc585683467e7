package dist_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// plane makes the Cart of all ranks, and a Grid on it whose elements are 100 times their row plus their column.
func plane(c *mpi.Comm, periodic bool, rows, cols, halo int) (*mpi.Cart, *dist.Grid[int], error) {
	dims, err := mpi.Dims(c.Size(), []int{0, 0})
	if err != nil {
		return nil, nil, err
	}
	t, err := c.Cart(dims, []bool{periodic, periodic}, false)
	if err != nil {
		return nil, nil, err
	}
	g, err := dist.NewGrid[int](t, rows, cols, halo)
	if err != nil {
		return nil, nil, err
	}
	left, _ := g.Columns()
	for i, end := g.Rows(); i < end; i++ {
		for j := range g.Own(i) {
			g.Own(i)[j] = 100*i + left + j
		}
	}
	return t, g, nil
}

// The halo is what the neighbours have, corners too, and beyond the end what was there.
func TestGridExchange(t *testing.T) {
	const rows, cols = 7, 9
	for _, ranks := range []int{1, 2, 4, 6} {
		for _, periodic := range []bool{false, true} {
			for _, halo := range []int{0, 1, 2} {
				mpitest.Run(t, ranks, func(c *mpi.Comm) error {
					_, g, err := plane(c, periodic, rows, cols, halo)
					if err != nil {
						return err
					}
					for range 2 {
						if err := g.Exchange(); err != nil {
							return err
						}
					}
					first, end := g.Rows()
					left, _ := g.Columns()
					for i := first - halo; i < end+halo; i++ {
						for k, v := range g.Row(i) {
							j := left - halo + k
							want := 100*((i+rows)%rows) + (j+cols)%cols
							if !periodic && (i < 0 || i >= rows || j < 0 || j >= cols) {
								want = 0
							}
							if v != want {
								return fmt.Errorf("halo %d, %v: element %d, %d is %d, want %d", halo, g, i, j, v, want)
							}
						}
					}
					all, err := g.Gather(c.Size() - 1)
					for k, v := range all {
						if v != 100*(k/cols)+k%cols {
							return fmt.Errorf("gathered %d: %d", k, v)
						}
					}
					if err == nil && (len(all) == rows*cols) != (c.Rank() == c.Size()-1) {
						err = fmt.Errorf("rank %d has %d elements", c.Rank(), len(all))
					}
					return err
				})
			}
		}
	}
}

// stencil is a program whose state is a Grid, computed of another one.
func stencil(steps int, result *[]int) func(c *mpi.Comm) error {
	return func(c *mpi.Comm) error {
		t, now, err := plane(c, true, 11, 8, 1)
		if err != nil {
			return err
		}
		next, err := dist.NewGrid[int](t, 11, 8, 1)
		if err != nil {
			return err
		}
		step, state := 0, cr.On(c)
		if err := errors.Join(state.Register("plane", now), state.Register("step", dist.Replicated(&step))); err != nil {
			return err
		}
		for ; step < steps; step++ {
			if err := state.Point(); err != nil {
				return err
			}
			if err := now.Exchange(); err != nil {
				return err
			}
			for i, end := now.Rows(); i < end; i++ {
				up, mid, down := now.Row(i-1), now.Row(i), now.Row(i+1)
				for j := range next.Own(i) {
					next.Own(i)[j] = (up[j] + up[j+2] + 3*mid[j+1] + mid[j] + down[j+2] + step) % 10007
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

// Blocks of any number of ranks go on as blocks of any other.
func TestGridResize(t *testing.T) {
	var want []int
	mpitest.Run(t, 4, stencil(9, &want))
	for _, ranks := range [][]int{{4, 6, 1}, {1, 4, 4}, {6, 5, 8, 2}} {
		var got []int
		mpitest.Resize(t, 2, ranks, stencil(9, &got))
		if !slices.Equal(got, want) {
			t.Errorf("%v ranks: %v, undisturbed %v", ranks, got, want)
		}
	}
}

// Misuse is an error of this package.
func TestGridMisuse(t *testing.T) {
	mpitest.Run(t, 2, func(c *mpi.Comm) error {
		if _, err := dist.NewGrid[int](nil, 4, 4, 1); !errors.Is(err, mpi.ErrComm) {
			return fmt.Errorf("no Cart: %v", err)
		}
		line, err := c.Cart([]int{2}, []bool{false}, false)
		if err != nil {
			return err
		}
		if _, err := dist.NewGrid[int](line, 4, 4, 1); !errors.Is(err, mpi.ErrDims) {
			return fmt.Errorf("a line: %v", err)
		}
		cart, g, err := plane(c, false, 4, 4, 1)
		if err != nil {
			return err
		}
		for _, bad := range [][3]int{{1, 4, 0}, {4, 0, 0}, {4, 4, -1}, {4, 4, 3}} {
			if _, err := dist.NewGrid[int](cart, bad[0], bad[1], bad[2]); !errors.Is(err, dist.ErrRows) {
				return fmt.Errorf("%v: %v", bad, err)
			}
		}
		for halo := range 2 {
			if _, err := dist.NewGrid[string](cart, 4, 4, halo); !errors.Is(err, mpi.ErrType) {
				return fmt.Errorf("strings: %v", err)
			}
		}
		other, err := dist.NewGrid[int](cart, 4, 5, 1)
		if err != nil {
			return err
		}
		if err := g.Swap(other); !errors.Is(err, dist.ErrRows) {
			return fmt.Errorf("another size: %v", err)
		}
		if err := g.Start(); err != nil {
			return err
		}
		for _, err := range []error{g.Start(), g.Swap(g)} {
			if !errors.Is(err, dist.ErrActive) {
				return fmt.Errorf("under way: %v", err)
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, row := range []func(){func() { g.Row(9) }, func() { g.Own(-1) }} {
			if !panics(row) {
				return errors.New("a row of another rank is there")
			}
		}
		return nil
	})
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}
