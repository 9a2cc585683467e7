package dist_test

import (
	"errors"
	"fmt"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// Heat flows along a rod. The rod is distributed over the ranks, and may be over others after a restart.
func Example() {
	const points, steps = 10, 100
	mpitest.Example(3, func(c *mpi.Comm) error {
		rod, err := dist.New[float64](c, dist.Even(points, c.Size()), 1, 1)
		if err != nil {
			return err
		}
		next, err := dist.New[float64](c, rod.Rows(), 1, 1)
		if err != nil {
			return err
		}
		first, end := rod.Range()
		if first == 0 { // what is before the first row is the program's
			rod.Row(-1)[0], next.Row(-1)[0] = 64, 64
		}
		step, state := 0, cr.On(c)
		if err := state.Register("rod", rod); err != nil {
			return err
		}
		if err := state.Register("step", dist.Replicated(&step)); err != nil {
			return err
		}
		for ; step < steps; step++ {
			if err := state.Point(); err != nil {
				return err
			}
			if err := rod.Exchange(); err != nil {
				return err
			}
			for i := first; i < end; i++ {
				next.Row(i)[0] = (rod.Row(i - 1)[0] + rod.Row(i + 1)[0]) / 2
			}
			if err := rod.Swap(next); err != nil {
				return err
			}
		}
		all, err := rod.Gather(0)
		if err == nil && c.Rank() == 0 {
			fmt.Printf("%.1f\n", all)
		}
		return err
	})
	// Output: [58.0 52.0 46.0 40.2 34.3 28.5 22.7 17.0 11.3 5.6]
}

// numbered makes an Array of four rows, each of which has its number, with a row of each neighbour.
func numbered(c *mpi.Comm) (*dist.Array[int], error) {
	a, err := dist.New[int](c, dist.Even(4, c.Size()), 1, 1)
	if err != nil {
		return nil, err
	}
	first, end := a.Range()
	for i := first; i < end; i++ {
		a.Row(i)[0] = i
	}
	return a, nil
}

// The number of a step is the same on all ranks, so any number of ranks can go on from it.
func ExampleReplicated() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		step, state := 0, cr.On(c)
		if err := state.Register("step", dist.Replicated(&step)); err != nil {
			return err
		}
		for ; step < 5; step++ {
			if err := state.Point(); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			fmt.Println(step)
		}
		return nil
	})
	// Output: 5
}

func ExampleNew() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		a, err := dist.New[float64](c, dist.Rows{0, 1, 4}, 2, 0) // one row, and three
		if err == nil && c.Rank() == 1 {
			fmt.Println(a, a.Own())
		}
		return err
	})
	// Output: dist.Array[float64] of 4 rows of 2, here 1 to 4 [0 0 0 0 0 0]
}

func ExampleArray_Rows() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		a, err := numbered(c)
		if err != nil {
			return err
		}
		next, err := dist.New[int](c, a.Rows(), 1, 1) // distributed alike
		if err == nil && c.Rank() == 0 {
			fmt.Println(next.Rows())
		}
		return err
	})
	// Output: [0 2 4]
}

func ExampleArray_Range() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		a, err := numbered(c)
		if err == nil && c.Rank() == 1 {
			fmt.Println(a.Range())
		}
		return err
	})
	// Output: 2 4
}

func ExampleArray_Own() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		a, err := numbered(c)
		if err == nil && c.Rank() == 1 {
			fmt.Println(a.Own())
		}
		return err
	})
	// Output: [2 3]
}

// What is before the first row, and behind the last one, belongs to the program.
func ExampleArray_Row() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		a, err := numbered(c)
		if err != nil {
			return err
		}
		a.Row(-1)[0], a.Row(4)[0] = 7, 8
		fmt.Println(a.Row(-1), a.Own(), a.Row(4))
		return nil
	})
	// Output: [7] [0 1 2 3] [8]
}

func ExampleArray_Exchange() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		a, err := numbered(c)
		if err != nil {
			return err
		}
		err = a.Exchange()
		if c.Rank() == 1 {
			fmt.Println(a.Row(1), a.Own())
		}
		return err
	})
	// Output: [1] [2 3]
}

// Each step computes one array of the other.
func ExampleArray_Swap() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		now, err := numbered(c)
		if err != nil {
			return err
		}
		next, err := numbered(c)
		if err != nil {
			return err
		}
		for range 3 {
			for i, v := range now.Own() {
				next.Own()[i] = 2 * v
			}
			if err := now.Swap(next); err != nil {
				return err
			}
		}
		fmt.Println(now.Own())
		return nil
	})
	// Output: [0 8 16 24]
}

func ExampleArray_Gather() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		a, err := numbered(c)
		if err != nil {
			return err
		}
		all, err := a.Gather(2)
		if c.Rank() == 2 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [0 1 2 3]
}

// Rank 1 computes what needs no row of rank 0 while that row is on its way.
func ExampleArray_Start() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		a, err := dist.New[int](c, dist.Rows{0, 1, 4}, 1, 1)
		if err != nil {
			return err
		}
		for i := range a.Own() {
			a.Own()[i] = c.Rank() + 1
		}
		if err := a.Start(); err != nil {
			return err
		}
		first, end := a.Range()
		sum := 0
		for i := first + 1; i < end; i++ {
			sum += a.Row(i)[0] * a.Row(i - 1)[0]
		}
		if err := a.Wait(); err != nil {
			return err
		}
		if first > 0 {
			fmt.Println(a, "sum", sum+a.Row(first)[0]*a.Row(first - 1)[0])
		}
		return a.Free()
	})
	// Output: dist.Array[int] of 4 rows of 1, here 1 to 4 sum 10
}

// Until Wait nobody else begins an exchange of the same Array.
func ExampleArray_Wait() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		a, err := numbered(c)
		if err != nil {
			return err
		}
		if err := a.Start(); err != nil {
			return err
		}
		again := a.Start()
		err = a.Wait()
		if c.Rank() == 0 {
			fmt.Println(errors.Is(again, dist.ErrActive), a.Own(), a.Row(2))
		}
		return err
	})
	// Output: true [0 1] [2]
}

// The rows stay when the Array is given up.
func ExampleArray_Free() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		a, err := numbered(c)
		if err != nil {
			return err
		}
		err = a.Free()
		if c.Rank() == 1 {
			fmt.Println(a.Own(), a.Exchange() != nil)
		}
		return err
	})
	// Output: [2 3] true
}

func ExampleArray_String() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		a, err := numbered(c)
		if err == nil && c.Rank() == 1 {
			fmt.Println(a.String())
		}
		return err
	})
	// Output: dist.Array[int] of 4 rows of 1, here 2 to 4
}

// What cr.Register asks for.
func ExampleArray_Part() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		a, err := dist.New[int](c, dist.Even(4, 1), 2, 1)
		if err != nil {
			return err
		}
		p := a.Part()
		fmt.Println(p.Rows, p.Width, p.First, *p.Own.(*[]int))
		return nil
	})
	// Output: 4 2 0 [0 0 0 0 0 0 0 0]
}

// The program has the memory, with room for something else behind the rows.
func ExampleOver() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		rows := dist.Even(4, c.Size())
		mem := []int{10 + c.Rank(), 20 + c.Rank(), 0, 0}
		a, err := dist.Over(c, rows, 1, mem[:2])
		if err != nil {
			return err
		}
		all, err := a.Gather(0)
		if c.Rank() == 0 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [10 20 11 21]
}

func ExampleEven() {
	rows := dist.Even(10, 4)
	fmt.Println(rows, rows.Total(), rows.Rank(7))
	fmt.Println(rows.Of(3))
	// Output:
	// [0 2 5 7 10] 10 3
	// 7 10
}

func ExampleRows_Total() {
	fmt.Println(dist.Rows{0, 3, 3, 8}.Total())
	// Output: 8
}

func ExampleRows_Of() {
	rows := dist.Rows{0, 3, 3, 8}
	for rank := range 3 {
		fmt.Println(rows.Of(rank)) // rank 1 has none
	}
	// Output:
	// 0 3
	// 3 3
	// 3 8
}

func ExampleRows_Rank() {
	rows := dist.Rows{0, 3, 3, 8}
	fmt.Println(rows.Rank(2), rows.Rank(3), rows.Rank(8))
	// Output: 0 2 -1
}

// numberedGrid makes a Grid of 4 x 6, cut into columns of blocks, whose elements are their row numbers.
func numberedGrid(c *mpi.Comm) (*dist.Grid[int], error) {
	t, err := c.Cart([]int{1, c.Size()}, []bool{false, false}, false)
	if err != nil {
		return nil, err
	}
	g, err := dist.NewGrid[int](t, 4, 6, 1)
	if err != nil {
		return nil, err
	}
	for i, end := g.Rows(); i < end; i++ {
		for j := range g.Own(i) {
			g.Own(i)[j] = 10*i + c.Rank()
		}
	}
	return g, nil
}

// A plate is cut into blocks in both directions. It may be cut in other blocks after a restart.
func ExampleNewGrid() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		dims, err := mpi.Dims(c.Size(), []int{0, 0}) // 2 by 2
		if err != nil {
			return err
		}
		t, err := c.Cart(dims, []bool{true, true}, false)
		if err != nil {
			return err
		}
		plate, err := dist.NewGrid[float64](t, 6, 10, 1)
		if err != nil {
			return err
		}
		if err := cr.On(c).Register("plate", plate); err != nil {
			return err
		}
		if c.Rank() == 3 {
			fmt.Println(plate)
		}
		return plate.Exchange()
	})
	// Output: dist.Grid[float64] of 6 x 10, here rows 3 to 6, columns 5 to 10
}

func ExampleGrid_String() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err == nil && c.Rank() == 1 {
			fmt.Println(g)
		}
		return err
	})
	// Output: dist.Grid[int] of 4 x 6, here rows 0 to 4, columns 3 to 6
}

func ExampleGrid_Rows() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err == nil && c.Rank() == 1 {
			fmt.Println(g.Rows())
		}
		return err
	})
	// Output: 0 4
}

func ExampleGrid_Columns() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err == nil && c.Rank() == 1 {
			fmt.Println(g.Columns())
		}
		return err
	})
	// Output: 3 6
}

// A row begins with the halo on the left.
func ExampleGrid_Row() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err != nil {
			return err
		}
		err = g.Exchange()
		if c.Rank() == 1 {
			fmt.Println(g.Row(2))
		}
		return err
	})
	// Output: [20 21 21 21 0]
}

func ExampleGrid_Own() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err == nil && c.Rank() == 1 {
			fmt.Println(g.Own(3))
		}
		return err
	})
	// Output: [31 31 31]
}

func ExampleGrid_Exchange() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err != nil {
			return err
		}
		err = g.Exchange()
		if c.Rank() == 0 {
			fmt.Println(g.Row(0))
		}
		return err
	})
	// Output: [0 0 0 0 1]
}

// What needs no halo is computed while it is under way.
func ExampleGrid_Start() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err != nil {
			return err
		}
		if err := g.Start(); err != nil {
			return err
		}
		sum := 0
		for _, v := range g.Own(1) {
			sum += v
		}
		err = g.Wait()
		if c.Rank() == 0 {
			fmt.Println(sum, g.Row(1))
		}
		return err
	})
	// Output: 30 [0 10 10 10 11]
}

func ExampleGrid_Wait() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err != nil {
			return err
		}
		if err := g.Start(); err != nil {
			return err
		}
		fmt.Println(errors.Is(g.Start(), dist.ErrActive))
		return g.Wait()
	})
	// Output: true
}

func ExampleGrid_Swap() {
	mpitest.Example(1, func(c *mpi.Comm) error {
		t, err := c.Cart([]int{1, 1}, []bool{true, true}, false)
		if err != nil {
			return err
		}
		now, err := dist.NewGrid[int](t, 2, 2, 0)
		if err != nil {
			return err
		}
		next, err := dist.NewGrid[int](t, 2, 2, 0)
		if err != nil {
			return err
		}
		next.Own(0)[1] = 7
		err = now.Swap(next)
		fmt.Println(now.Own(0))
		return err
	})
	// Output: [0 7]
}

func ExampleGrid_Gather() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err != nil {
			return err
		}
		all, err := g.Gather(0)
		if c.Rank() == 0 {
			fmt.Println(all[:12])
		}
		return err
	})
	// Output: [0 0 0 1 1 1 10 10 10 11 11 11]
}

// cr.Register calls Image. What it registers is the block without its halo.
func ExampleGrid_Image() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		g, err := numberedGrid(c)
		if err != nil {
			return err
		}
		step, state := 0, cr.On(c)
		if err := errors.Join(state.Register("plane", g), state.Register("step", dist.Replicated(&step))); err != nil {
			return err
		}
		return state.Point()
	})
	// Output:
}
