package mpi

import "github.com/gorun-mpi/gorun/internal/rank/schedule"

// fold combines the contributions of n ranks into the first one. They have so many bytes each, and lie one after the other in all.
func (x *collective) fold(all []byte, bytes, n int) {
	at := func(rank int) []byte { return all[rank*bytes : (rank+1)*bytes] }
	schedule.Fold(n, func(low, high int) { x.by.join(at(low), at(low), at(high)) })
}
