package mpi

import "github.com/gorun-mpi/gorun/internal/rank/schedule"

// fold combines the contributions of all ranks into the first k elements. The contributions, k elements each,
// lie one after the other in all.
func fold[T any](all []T, k, n int, op Operator[T]) {
	o := schedule.OrderOf(n)
	at := func(rank int) []T { return all[rank*k : (rank+1)*k] }
	for v := range o.Extra {
		op.Apply(at(2*v), at(2*v+1))
	}
	for bit := 1; bit < o.Whole; bit *= 2 {
		for v := 0; v < o.Whole; v += 2 * bit {
			op.Apply(at(o.First(v)), at(o.First(v+bit)))
		}
	}
}

// below combines low with acc, into acc. low comes from lower ranks, and is used up.
func below[T any](acc, low []T, op Operator[T]) {
	op.Apply(low, acc)
	copy(acc, low)
}

// combine combines came with acc, into acc. came is from a neighbouring range of ranks, lower or upper, and is
// used up.
func combine[T any](acc, came []T, lower bool, op Operator[T]) {
	if lower {
		below(acc, came, op)
	} else {
		op.Apply(acc, came)
	}
}
