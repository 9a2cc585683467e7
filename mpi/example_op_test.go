package mpi_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/mpi"
	"github.com/gorun-mpi/gorun/mpi/mpitest"
)

// combine reduces one value of each of three ranks and prints the result.
func combine[T any](value func(rank int) T, op mpi.Op[T]) {
	mpitest.Example(3, func(c *mpi.Comm) error {
		buf := []T{value(c.Rank())}
		err := mpi.AllreduceInPlace(c, buf, op)
		return show(c, 0, buf[0], err)
	})
}

func ExampleSum() {
	combine(func(r int) float64 { return float64(r) / 2 }, mpi.Sum[float64]())
	// Output: 1.5
}

func ExampleProd() {
	combine(func(r int) complex128 { return complex(0, 1) }, mpi.Prod[complex128]())
	// Output: (-0-1i)
}

func ExampleMax() {
	combine(func(r int) int { return -r }, mpi.Max[int]())
	// Output: 0
}

func ExampleMin() {
	combine(func(r int) int { return -r }, mpi.Min[int]())
	// Output: -2
}

func ExampleLAnd() {
	combine(func(r int) bool { return r < 2 }, mpi.LAnd[bool]())
	// Output: false
}

func ExampleLOr() {
	combine(func(r int) bool { return r < 2 }, mpi.LOr[bool]())
	// Output: true
}

func ExampleLXor() {
	combine(func(r int) bool { return r < 2 }, mpi.LXor[bool]())
	// Output: false
}

func ExampleBAnd() {
	combine(func(r int) uint8 { return ^(1 << r) }, mpi.BAnd[uint8]())
	// Output: 248
}

func ExampleBOr() {
	combine(func(r int) uint8 { return 1 << r }, mpi.BOr[uint8]())
	// Output: 7
}

func ExampleBXor() {
	combine(func(r int) uint8 { return uint8(r) }, mpi.BXor[uint8]())
	// Output: 3
}

func ExampleMaxLoc() {
	heights := []float64{3, 8, 5}
	combine(func(r int) mpi.ValueLoc[float64] { return mpi.ValueLoc[float64]{Value: heights[r], Loc: r} }, mpi.MaxLoc[float64]())
	// Output: {8 1}
}

func ExampleMinLoc() {
	heights := []float64{3, 8, 3}
	combine(func(r int) mpi.ValueLoc[float64] { return mpi.ValueLoc[float64]{Value: heights[r], Loc: r} }, mpi.MinLoc[float64]())
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
	combine(func(r int) affine { return affine{2, r} }, then)
	fmt.Println(then.Commutative())
	// Output:
	// {8 4}
	// false
}
