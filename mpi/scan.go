package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// Scan gives rank i the combination of the send of ranks 0..i, element by element, in the order of ranks. All
// pass the same length and operator. Errors: as Allreduce. (MPI-4.1, chapter 6.11.1)
func Scan[T any](c *Comm, send, recv []T, op Op[T]) error {
	return scan(c, kindScan, send, recv, op)
}

// ScanInPlace is Scan where buf holds the contribution before and the result
// after. Errors: as Allreduce. (MPI-4.1, chapter 6.11.1)
func ScanInPlace[T any](c *Comm, buf []T, op Op[T]) error {
	return reduction(c, kindScan, noRoot, buf, buf, op, nil, scanRanks)
}

// Exscan gives rank i the combination of the send of ranks 0..i-1. Rank 0's recv is left as it is. Errors: as
// Allreduce. (MPI-4.1, chapter 6.11.2)
func Exscan[T any](c *Comm, send, recv []T, op Op[T]) error {
	return scan(c, kindExscan, send, recv, op)
}

// ExscanInPlace is Exscan where buf holds the contribution before and the result after. Rank 0's buf is left as
// it is. Errors: as Allreduce. (MPI-4.1, chapter 6.11.2)
func ExscanInPlace[T any](c *Comm, buf []T, op Op[T]) error {
	return reduction(c, kindExscan, noRoot, buf, buf, op, nil, scanRanks)
}

func scan[T any](c *Comm, k kind, send, recv []T, op Op[T]) error {
	err := first(compare("recv", len(recv), len(send)), apart(bytesOf(send), bytesOf(recv)))
	return reduction(c, k, noRoot, send, recv, op, err, scanRanks)
}

func scanRanks(x *collective, send, recv []byte) error {
	n, me, k := x.c.size, x.c.rank, len(send)/x.t.Size
	exclusive, inPlace := x.kind == kindExscan, same(send, recv)
	if n == 1 {
		if !exclusive {
			move(recv, send)
		}
		return nil
	}
	rule, err := x.choose(x.bytes)
	if err != nil {
		return err
	}
	if rule.Algorithm == coll.Shared {
		return x.scanShared(send, recv, rule.Segment)
	}
	s, known := x.plan(rule, k, inPlace)
	switch {
	case known:
	case rule.Algorithm == coll.Central:
		schedule.ScanCentral(s, me, n, k, exclusive)
	default:
		schedule.Scan(s, me, n, k, exclusive, inPlace)
	}
	return x.carry(s, send, recv)
}

// scanShared makes every rank read all contributions and combine its own result.
func (x *collective) scanShared(send, recv []byte, segment int) error {
	n, me, size := x.c.size, x.c.rank, x.t.Size
	most := x.piece(segment) / size
	s := borrow(n * min(most*size, len(send)))
	defer s.giveBack()
	all := s.bytes(n * min(most*size, len(send)))
	return strips(1, len(send)/size, most, func(off, k int) error {
		off, k = off*size, k*size
		err := x.take(engine.Turn{Need: engine.Everybody, Send: send[off : off+k], Want: k, Len: k, Into: all, Stride: k})
		if err == nil && x.scanOne(all, k, me) {
			copy(recv[off:], all[me*k:(me+1)*k])
		}
		return err
	})
}

// scanOne does for one rank what the rounds of a schedule.Scan do. It leaves the result at the rank's place in
// all, k bytes each, and uses up those below. It reports whether there is a result.
func (x *collective) scanOne(all []byte, k, me int) bool {
	at := func(r int) []byte { return all[r*k : (r+1)*k] }
	exclusive := x.kind == kindExscan
	for d := 1; d <= me; d *= 2 {
		for r := me; r >= d; r -= 2 * d {
			if exclusive && r == me && d == 1 {
				copy(at(me), at(me-1))
			} else {
				x.by.join(at(r), at(r-d), at(r))
			}
		}
	}
	return me > 0 || !exclusive
}
