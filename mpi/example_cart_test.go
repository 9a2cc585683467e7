package mpi_test

import (
	"context"
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleDims() {
	dims, err := mpi.Dims(24, []int{0, 2, 0})
	fmt.Println(dims, err)
	// Output: [4 2 3] <nil>
}

func ExampleComm_Cart() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		grid, err := c.Cart([]int{2, 3}, []bool{false, true}, false)
		if err != nil {
			return err
		}
		at, err := grid.Coords(grid.Rank())
		return show(c, 4, at, err)
	})
	// Output: [1 1]
}

// torus is a grid of two by three points.
func torus(c *mpi.Comm) *mpi.Cart {
	t, err := c.Cart([]int{2, 3}, []bool{false, true}, false)
	if err != nil {
		panic(err)
	}
	return t
}

func ExampleCart_Dims() {
	mpitest.Example(6, func(c *mpi.Comm) error { return show(c, 0, torus(c).Dims(), nil) })
	// Output: [2 3]
}

func ExampleCart_Periodic() {
	mpitest.Example(6, func(c *mpi.Comm) error { return show(c, 0, torus(c).Periodic(), nil) })
	// Output: [false true]
}

func ExampleCart_Coords() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		at, err := torus(c).Coords(5)
		return show(c, 0, at, err)
	})
	// Output: [1 2]
}

func ExampleCart_RankAt() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		r, err := torus(c).RankAt(1, -1) // round the end of the second dimension
		return show(c, 0, r, err)
	})
	// Output: 5
}

func ExampleCart_Shift() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		left, right, err := torus(c).Shift(1, 1)
		return show(c, 0, fmt.Sprint(left, right), err)
	})
	// Output: 2 1
}

func ExampleCart_Sub() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		row, err := torus(c).Sub([]bool{false, true})
		if err != nil {
			return err
		}
		sum, err := mpi.AllreduceValue(row.Comm, c.Rank(), mpi.Sum)
		return show(c, 3, sum, err)
	})
	// Output: 12
}

func ExampleCart_Dup() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		d, err := torus(c).Dup()
		return show(c, 0, d.Dims(), err)
	})
	// Output: [2 3]
}

func ExampleCart_WithContext() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		t := torus(c).WithContext(ctx)
		return show(c, 0, t.Dims(), mpi.Barrier(t.Comm))
	})
	// Output: [2 3]
}

// chain is a graph in which every rank sends to the next.
func chain(c *mpi.Comm) *mpi.Graph {
	var from, to []int
	if c.Rank() > 0 {
		from = []int{c.Rank() - 1}
	}
	if c.Rank() < c.Size()-1 {
		to = []int{c.Rank() + 1}
	}
	g, err := c.DistGraph(from, to, nil)
	if err != nil {
		panic(err)
	}
	return g
}

func ExampleComm_DistGraph() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		var from, to []int
		if c.Rank() == 0 {
			from = []int{1, 2, 3} // all others send to rank 0
		} else {
			to = []int{0}
		}
		star, err := c.DistGraph(from, to, nil)
		if err != nil {
			return err
		}
		got := make([]int, len(from))
		err = mpi.NeighborAllgather(star, []int{c.Rank() * 11}, got)
		return show(c, 0, got, err)
	})
	// Output: [11 22 33]
}

func ExampleGraph_Neighbors() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		from, to, w := chain(c).Neighbors()
		return show(c, 1, fmt.Sprint(from, to, w), nil)
	})
	// Output: [0] [2] <nil>
}

func ExampleGraph_Dup() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		d, err := chain(c).Dup()
		if err != nil {
			return err
		}
		from, _, _ := d.Neighbors()
		return show(c, 2, from, nil)
	})
	// Output: [1]
}

func ExampleGraph_WithContext() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		g := chain(c).WithContext(ctx)
		from, _, _ := g.Neighbors()
		got := make([]int, len(from))
		return show(c, 2, from, mpi.NeighborAllgather(g, []int{c.Rank()}, got))
	})
	// Output: [1]
}

func ExampleNeighborAllgather() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		around := []int{-1, -1, -1, -1} // up, down, left, right; there is nobody above the first row
		err := mpi.NeighborAllgather(torus(c), []int{c.Rank()}, around)
		return show(c, 0, around, err)
	})
	// Output: [-1 3 2 1]
}

func ExampleNeighborAllgatherv() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		send := make([]int, c.Rank()+1) // of a length that the next rank knows
		send[0] = c.Rank()
		var counts []int
		if c.Rank() > 0 {
			counts = []int{c.Rank()}
		}
		recv := make([]int, c.Rank())
		err := mpi.NeighborAllgatherv(chain(c), send, recv, counts, nil)
		return show(c, 2, recv, err)
	})
	// Output: [1 0]
}

func ExampleNeighborAlltoall() {
	mpitest.Example(6, func(c *mpi.Comm) error {
		send := []int{10 * c.Rank(), 10*c.Rank() + 1, 10*c.Rank() + 2, 10*c.Rank() + 3}
		recv := make([]int, 4)
		err := mpi.NeighborAlltoall(torus(c), send, recv)
		return show(c, 0, recv, err) // from below: what rank 3 has sent up
	})
	// Output: [0 30 23 12]
}

func ExampleNeighborAlltoallv() {
	mpitest.Example(2, func(c *mpi.Comm) error {
		line, err := c.Cart([]int{2}, []bool{false}, false)
		if err != nil {
			return err
		}
		send, recv := []string{"ab", "xyz"}[c.Rank()], make([]byte, 3-c.Rank())
		at := []int{1 - c.Rank(), c.Rank()} // rank 0 has a neighbour above only, rank 1 below
		scounts := []int{at[1] * len(send), at[0] * len(send)}
		rcounts := []int{at[1] * len(recv), at[0] * len(recv)}
		err = mpi.NeighborAlltoallv(line, []byte(send), scounts, nil, recv, rcounts, nil)
		return show(c, 0, string(recv), err)
	})
	// Output: xyz
}

func ExampleNewHalo() {
	mpitest.Example(4, func(c *mpi.Comm) error {
		grid, err := c.Cart([]int{2, 2}, []bool{true, true}, true)
		if err != nil {
			return err
		}
		const n = 4 + 2 // four by four cells, and a layer of ghost cells around
		field := make([]float64, n*n)
		halo, err := mpi.NewHalo(grid, field, []int{n, n}, 1, true)
		if err != nil {
			return err
		}
		for i := range field {
			field[i] = float64(grid.Rank())
		}
		err = halo.Exchange()
		return show(grid.Comm, 0, fmt.Sprint(field[0], field[1], field[n], field[n+1]), err)
	})
	// Output: 3 2 1 0
}

func ExampleHalo_Exchange() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		line, err := c.Cart([]int{3}, []bool{false}, false)
		if err != nil {
			return err
		}
		x := make([]int, 5)
		x[2] = 100 * c.Rank() // alone between two ghost cells of each side
		halo, err := mpi.NewHalo(line, x[1:4], []int{3}, 1, false)
		if err != nil {
			return err
		}
		for range 2 { // each step of a program has one
			if err := halo.Exchange(); err != nil {
				return err
			}
		}
		return show(c, 1, x, nil)
	})
	// Output: [0 0 100 200 0]
}
