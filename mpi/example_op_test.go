package mpi_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

func ExampleSum() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, float64(c.Rank())/2, mpi.Sum)
		return show(c, 0, v, err)
	})
	// Output: 1.5
}

func ExampleProd() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, complex(0, 1), mpi.Prod)
		return show(c, 0, v, err)
	})
	// Output: (-0-1i)
}

func ExampleMax() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, -c.Rank(), mpi.Max)
		return show(c, 0, v, err)
	})
	// Output: 0
}

func ExampleMin() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, -c.Rank(), mpi.Min)
		return show(c, 0, v, err)
	})
	// Output: -2
}

func ExampleLAnd() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, c.Rank() < 2, mpi.LAnd)
		return show(c, 0, v, err)
	})
	// Output: false
}

func ExampleLOr() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, c.Rank() < 2, mpi.LOr)
		return show(c, 0, v, err)
	})
	// Output: true
}

func ExampleLXor() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, c.Rank() < 2, mpi.LXor)
		return show(c, 0, v, err)
	})
	// Output: false
}

func ExampleBAnd() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, ^uint8(1<<c.Rank()), mpi.BAnd)
		return show(c, 0, v, err)
	})
	// Output: 248
}

func ExampleBOr() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, uint8(1<<c.Rank()), mpi.BOr)
		return show(c, 0, v, err)
	})
	// Output: 7
}

func ExampleBXor() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, uint8(c.Rank()), mpi.BXor)
		return show(c, 0, v, err)
	})
	// Output: 3
}

func ExampleMaxLoc() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		heights := []float64{3, 8, 5}
		v, err := mpi.AllreduceValue(c, mpi.ValueLoc[float64]{Value: heights[c.Rank()], Loc: c.Rank()}, mpi.MaxLoc)
		return show(c, 0, v, err)
	})
	// Output: {8 1}
}

func ExampleMinLoc() {
	mpitest.Example(3, func(c *mpi.Comm) error {
		heights := []float64{3, 8, 3}
		v, err := mpi.AllreduceValue(c, mpi.ValueLoc[float64]{Value: heights[c.Rank()], Loc: c.Rank()}, mpi.MinLoc)
		return show(c, 0, v, err)
	})
	// Output: {3 0}
}

// Composition of maps x -> A*x + B is not commutative: the order of ranks counts.
func ExampleOpFunc() {
	type affine struct{ A, B int }
	then := mpi.OpFunc(func(dst, src []affine) {
		for i, g := range src {
			dst[i] = affine{dst[i].A * g.A, dst[i].B*g.A + g.B}
		}
	}, false)
	mpitest.Example(3, func(c *mpi.Comm) error {
		v, err := mpi.AllreduceValue(c, affine{2, c.Rank()}, then)
		return show(c, 0, v, err)
	})
	// Output: {8 4}
}

func ExampleReduceLocal() {
	best := []int{3, 1, 4}
	err := mpi.ReduceLocal(best, []int{2, 7, 1}, mpi.Max)
	fmt.Println(best, err)
	// Output: [3 7 4] <nil>
}
