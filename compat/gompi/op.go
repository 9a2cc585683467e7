package mpi

import (
	"fmt"

	gorun "github.com/gorun-mpi/gorun/mpi"
)

// Op names an operation of a reduction. (MPI-4.1, chapter 6.9.2)
type Op uint8

// The operations. The logical and bitwise ones are for whole numbers: what is not 0 counts as true, and true is 1.
// OpMin and OpMax are not for complex numbers.
const (
	OpSum Op = iota
	OpMin
	OpMax
	OpProd
	OpLand
	OpLor
	OpLxor
	OpBand
	OpBor
	OpBxor
)

var opNames = [...]string{"OpSum", "OpMin", "OpMax", "OpProd", "OpLand", "OpLor", "OpLxor", "OpBand", "OpBor", "OpBxor"}

// String returns the name of the constant.
func (o Op) String() string {
	if int(o) >= len(opNames) {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return opNames[o]
}

// ofNumber returns the operator for any numbers, nil if there is none.
func ofNumber[T gorun.Number](op Op) gorun.Op[T] {
	switch op {
	case OpSum:
		return gorun.Sum[T]
	case OpProd:
		return gorun.Prod[T]
	}
	return nil
}

// ofReal is ofNumber for numbers that have an order.
func ofReal[T gorun.Real](op Op) gorun.Op[T] {
	switch op {
	case OpMin:
		return gorun.Min[T]
	case OpMax:
		return gorun.Max[T]
	}
	return ofNumber[T](op)
}

// ofInteger is ofReal for whole numbers.
func ofInteger[T gorun.Integer](op Op) gorun.Op[T] {
	switch op {
	case OpLand:
		return logical[T](func(a, b bool) bool { return a && b })
	case OpLor:
		return logical[T](func(a, b bool) bool { return a || b })
	case OpLxor:
		return logical[T](func(a, b bool) bool { return a != b })
	case OpBand:
		return gorun.BAnd[T]
	case OpBor:
		return gorun.BOr[T]
	case OpBxor:
		return gorun.BXor[T]
	}
	return ofReal[T](op)
}

// logical makes an operator on whole numbers of one on truth values.
func logical[T gorun.Integer](f func(a, b bool) bool) gorun.Op[T] {
	return gorun.OpFunc(func(dst, src []T) {
		for i := range dst {
			if f(dst[i] != 0, src[i] != 0) {
				dst[i] = 1
			} else {
				dst[i] = 0
			}
		}
	}, true)
}

// reduce returns an error if there is no operator; any other failure ends the job. dest counts, as in the original:
// elements of orig beyond it stay where they are.
func reduce[T any](o Communicator, dest, orig []T, t DataType, op Op, by gorun.Op[T], root int) error {
	if by == nil {
		return fmt.Errorf("mpi: %v is no operation on %v", op, t)
	}
	must(o.comm, gorun.Reduce(o.comm, orig[:min(len(orig), len(dest))], dest, by, root))
	return nil
}

// allreduce is reduce with the result on all ranks.
func allreduce[T any](o Communicator, dest, orig []T, t DataType, op Op, by gorun.Op[T]) error {
	if by == nil {
		return fmt.Errorf("mpi: %v is no operation on %v", op, t)
	}
	must(o.comm, gorun.Allreduce(o.comm, orig[:min(len(orig), len(dest))], dest, by))
	return nil
}
