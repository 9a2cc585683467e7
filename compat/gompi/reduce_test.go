package mpi

import (
	"fmt"
	"testing"
)

// truth is a logical operation on numbers.
func truth[T comparable](f func(a, b bool) bool, one T) func(a, b T) T {
	var zero T
	return func(a, b T) T {
		if f(a != zero, b != zero) {
			return one
		}
		return zero
	}
}

// integers are what the operations mean for whole numbers.
func integers[T byte | uint32 | int32 | uint64 | int64]() map[Op]func(a, b T) T {
	return map[Op]func(a, b T) T{
		OpSum: func(a, b T) T { return a + b }, OpProd: func(a, b T) T { return a * b },
		OpMin: func(a, b T) T { return min(a, b) }, OpMax: func(a, b T) T { return max(a, b) },
		OpLand: truth(func(a, b bool) bool { return a && b }, T(1)),
		OpLor:  truth(func(a, b bool) bool { return a || b }, T(1)),
		OpLxor: truth(func(a, b bool) bool { return a != b }, T(1)),
		OpBand: func(a, b T) T { return a & b }, OpBor: func(a, b T) T { return a | b }, OpBxor: func(a, b T) T { return a ^ b },
	}
}

func reals[T float32 | float64]() map[Op]func(a, b T) T {
	return map[Op]func(a, b T) T{
		OpSum: func(a, b T) T { return a + b }, OpProd: func(a, b T) T { return a * b },
		OpMin: func(a, b T) T { return min(a, b) }, OpMax: func(a, b T) T { return max(a, b) },
	}
}

// combined tries all operations on all roots. of[r] is what rank r has; their sums and products are exact.
func combined[T comparable](o Communicator, of [][]T, means map[Op]func(a, b T) T, reduce, allreduce func(dest, orig []T, op Op, root int) error) error {
	for op := OpSum; op <= OpBxor+1; op++ {
		f := means[op]
		root := int(op) % o.Size()
		got, all := make([]T, len(of[0])), make([]T, len(of[0]))
		err, allErr := reduce(got, of[o.Rank()], op, root), allreduce(all, of[o.Rank()], op, root)
		if f == nil {
			if err == nil || allErr == nil {
				return fmt.Errorf("%v has no meaning for the type, and no error", op)
			}
			continue
		}
		if err != nil || allErr != nil {
			return fmt.Errorf("%v: %v, %v", op, err, allErr)
		}
		want := append([]T(nil), of[0]...)
		for _, next := range of[1:o.Size()] {
			for i := range want {
				want[i] = f(want[i], next[i])
			}
		}
		for i := range want {
			if o.Rank() == root && got[i] != want[i] || all[i] != want[i] {
				return fmt.Errorf("%v, element %d: %v and %v, want %v", op, i, got[i], all[i], want[i])
			}
		}
	}
	return nil
}

func TestReductions(t *testing.T) {
	for name, f := range map[string]func(o Communicator) error{
		"byte": func(o Communicator) error {
			of := [][]byte{{1, 0, 200}, {2, 0, 100}, {3, 5, 255}, {4, 0, 0}}
			return combined(o, of, integers[byte](), o.ReduceBytes, o.AllreduceBytes)
		},
		"uint32": func(o Communicator) error {
			of := [][]uint32{{1, 0, 1 << 31}, {2, 0, 1 << 31}, {3, 5, 7}, {4, 0, 0}}
			return combined(o, of, integers[uint32](), o.ReduceUint32s, o.AllreduceUint32s)
		},
		"int32": func(o Communicator) error {
			of := [][]int32{{-1, 0, 1 << 30}, {2, 0, 1 << 30}, {3, -5, 7}, {4, 0, 0}}
			return combined(o, of, integers[int32](), o.ReduceInt32s, o.AllreduceInt32s)
		},
		"uint64": func(o Communicator) error {
			of := [][]uint64{{1, 0, 1 << 63}, {2, 0, 1 << 63}, {3, 5, 7}, {4, 0, 0}}
			return combined(o, of, integers[uint64](), o.ReduceUint64s, o.AllreduceUint64s)
		},
		"int64": func(o Communicator) error {
			of := [][]int64{{-1, 0, 1 << 62}, {2, 0, 1 << 62}, {3, -5, 7}, {4, 0, 0}}
			return combined(o, of, integers[int64](), o.ReduceInt64s, o.AllreduceInt64s)
		},
		"float32": func(o Communicator) error {
			of := [][]float32{{-1, 0, 0.5}, {2, 0, 0.25}, {3, -5, 7}, {4, 0, 1}}
			return combined(o, of, reals[float32](), o.ReduceFloat32s, o.AllreduceFloat32s)
		},
		"float64": func(o Communicator) error {
			of := [][]float64{{-1, 0, 0.5}, {2, 0, 0.25}, {3, -5, 7}, {4, 0, 1}}
			return combined(o, of, reals[float64](), o.ReduceFloat64s, o.AllreduceFloat64s)
		},
		"complex128": func(o Communicator) error {
			of := [][]complex128{{1i, 0}, {2 + 1i, 3}, {3, -5i}, {4, 1}}
			return combined(o, of, map[Op]func(a, b complex128) complex128{
				OpSum: func(a, b complex128) complex128 { return a + b }, OpProd: func(a, b complex128) complex128 { return a * b },
			}, o.ReduceComplex128s, o.AllreduceComplex128s)
		},
	} {
		t.Run(name, func(t *testing.T) { on(t, 4, f) })
	}
}
