package dist_test

import (
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

func ExampleReplicated()     { Example() }
func ExampleNew()            { Example() }
func ExampleArray_Exchange() { Example() }
func ExampleArray_Swap()     { Example() }
func ExampleArray_Gather()   { Example() }
func ExampleArray_Row()      { Example() }
func ExampleArray_Range()    { Example() }
func ExampleArray_Rows()     { Example() }

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

func ExampleArray_Wait()   { ExampleArray_Start() }
func ExampleArray_Own()    { ExampleArray_Start() }
func ExampleArray_Free()   { ExampleArray_Start() }
func ExampleArray_String() { ExampleArray_Start() }

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

func ExampleRows_Total() { ExampleEven() }
func ExampleRows_Rank()  { ExampleEven() }
func ExampleRows_Of()    { ExampleEven() }
