package mpi

import (
	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
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

func scanRanks[T any](x *collective, send, recv []T, op Operator[T]) error {
	if x.c.size == 1 {
		return scanDoubling(x, send, recv, op)
	}
	rule, err := x.choose(x.bytes)
	switch {
	case err != nil:
		return err
	case rule.Algorithm == coll.Shared:
		return scanShared(x, send, recv, op, rule.Segment)
	case rule.Algorithm == coll.Central:
		return scanCentral(x, send, recv, op)
	}
	return scanDoubling(x, send, recv, op)
}

// scanCentral leaves the work to rank 0. Rank 0 combines in the same order as scanDoubling.
func scanCentral[T any](x *collective, send, recv []T, op Operator[T]) error {
	n, k := x.c.size, len(send)
	if x.c.rank != 0 {
		return x.exchange(0, bytesOf(send), 0, bytesOf(recv))
	}
	all, s := borrowSlice[T](n * k)
	defer s.giveBack()
	if err := x.recvAll(bytesOf(all), equal(k, n)); err != nil {
		return err
	}
	copy(all, send)
	var exclusive []T
	if x.kind == kindExscan {
		var s2 *scratch
		exclusive, s2 = borrowSlice[T](n * k)
		defer s2.giveBack()
	}
	scanAll(all, exclusive, k, op)
	if x.kind == kindExscan {
		return x.sendAll(bytesOf(exclusive), equal(k, n))
	}
	copy(recv, all)
	return x.sendAll(bytesOf(all), equal(k, n))
}

// scanAll does for all ranks what the rounds of scanDoubling do; each rank has k elements. all then holds, for
// each rank, the combination of it and the ranks below. exclusive, if not nil, holds that of the ranks below
// alone.
func scanAll[T any](all, exclusive []T, k int, op Operator[T]) {
	low, s := borrowSlice[T](k)
	defer s.giveBack()
	for d := k; d < len(all); d *= 2 {
		for i := len(all) - k; i >= d; i -= k { // the lower rank's elements are still those of the round before
			span := all[i-d : i-d+k]
			switch {
			case exclusive == nil:
			case d == k:
				copy(exclusive[i:i+k], span)
			default:
				copy(low, span)
				below(exclusive[i:i+k], low, op)
			}
			copy(low, span)
			below(all[i:i+k], low, op)
		}
	}
}

// scanShared makes every rank read all contributions and combine its own result.
func scanShared[T any](x *collective, send, recv []T, op Operator[T], segment int) error {
	n, me, size := x.c.size, x.c.rank, x.t.Size
	most := x.piece(segment) / size
	all, s := borrowSlice[T](n * min(most, len(send)))
	defer s.giveBack()
	return strips(1, len(send), most, func(off, k int) error {
		err := x.take(engine.Turn{Need: engine.Everybody, Send: bytesOf(send[off : off+k]), Want: k * size,
			Len: k * size, Into: bytesOf(all), Stride: k * size})
		if err == nil && scanOne(all, k, me, x.kind == kindExscan, op) {
			copy(recv[off:], all[me*k:(me+1)*k])
		}
		return err
	})
}

// scanOne does for one rank what the rounds of scanDoubling do. It leaves the result at the rank's place in
// all, k elements each, and uses up those below. It reports whether there is a result.
func scanOne[T any](all []T, k, me int, exclusive bool, op Operator[T]) bool {
	at := func(r int) []T { return all[r*k : (r+1)*k] }
	for d := 1; d <= me; d *= 2 {
		for r := me; r >= d; r -= 2 * d {
			if exclusive && r == me && d == 1 {
				copy(at(me), at(me-1))
			} else {
				below(at(r), at(r-d), op)
			}
		}
	}
	return me > 0 || !exclusive
}

// scanDoubling passes partial results up by doubling distances. After the round of distance d a rank's range
// holds the combination of itself and the 2d-1 ranks below it. result holds that of the ranks below alone, and
// for Scan of the rank itself, too. send and recv may be the same slice.
func scanDoubling[T any](x *collective, send, recv []T, op Operator[T]) error {
	n, me := x.c.size, x.c.rank
	span, s1 := borrowSlice[T](len(send))
	defer s1.giveBack()
	in, s2 := borrowSlice[T](len(send))
	defer s2.giveBack()
	low, s3 := borrowSlice[T](len(send))
	defer s3.giveBack()
	copy(span, send)
	inclusive, have := x.kind == kindScan, false
	if inclusive {
		copy(recv, send)
		have = true
	}
	for d := 1; d < n; d *= 2 {
		if err := x.shift(me+d, bytesOf(span), me-d, bytesOf(in)); err != nil {
			return err
		}
		if me-d < 0 {
			continue
		}
		if have {
			copy(low, in)
			below(recv, low, op)
		} else {
			copy(recv, in)
			have = true
		}
		below(span, in, op)
	}
	return nil
}

// shift is exchange where one of the partners may not exist.
func (x *collective) shift(dst int, sp []byte, src int, rp []byte) error {
	switch {
	case dst < x.c.size && src >= 0:
		return x.exchange(dst, sp, src, rp)
	case dst < x.c.size:
		return x.send(dst, sp)
	case src >= 0:
		return x.recv(src, rp)
	}
	return nil
}
