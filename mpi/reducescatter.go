package mpi

import (
	"slices"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/engine"
	"github.com/gorun-mpi/gorun/internal/rank/schedule"
)

// ReduceScatterBlock combines all ranks' send, element by element, and gives rank i the i-th block of the
// result. len(send) is Size() times len(recv), which is the same everywhere. Errors: as Allreduce. (MPI-4.1,
// chapter 6.10.1)
func ReduceScatterBlock[T any](c *Comm, send, recv []T, op Op[T]) error {
	if c.crosses() {
		return crossReduceScatter(c, kindReduceScatterBlock, send, recv, slices.Repeat([]int{len(recv)}, c.Size()), op)
	}
	b := equal(len(recv), c.Size())
	err := first(compare("send", len(send), c.Size()*len(recv)), apart(bytesOf(send), bytesOf(recv)))
	return reduction(c, kindReduceScatterBlock, noRoot, send, recv, op, err, func(x *collective, send, recv []byte) error {
		return x.reduceScatter(send, recv, b)
	})
}

// ReduceScatterBlockInPlace is ReduceScatterBlock where buf holds the contribution before. After the call its
// first len(buf)/Size() elements are the result, and the rest is used up. Errors: as Allreduce. (MPI-4.1,
// chapter 6.10.1)
func ReduceScatterBlockInPlace[T any](c *Comm, buf []T, op Op[T]) error {
	n := max(c.Size(), 1)
	k := len(buf) / n
	return reduction(c, kindReduceScatterBlock, noRoot, buf, buf[:k], op, compare("buf", len(buf), k*n), func(x *collective, send, recv []byte) error {
		return x.reduceScatter(send, recv, equal(k, n))
	})
}

// ReduceScatter is ReduceScatterBlock with blocks of different lengths: rank i gets counts[i] elements. counts
// is the same on all ranks. Errors: as Allreduce. (MPI-4.1, chapter 6.10.2)
func ReduceScatter[T any](c *Comm, send, recv []T, counts []int, op Op[T]) error {
	if c.crosses() {
		return crossReduceScatter(c, kindReduceScatter, send, recv, counts, op)
	}
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	b, err := shares("send", c, len(send), counts, tmp)
	if err == nil && c.ready() == nil {
		err = compare("recv", len(recv), counts[c.rank])
	}
	err = first(err, apart(bytesOf(send), bytesOf(recv)))
	return reduction(c, kindReduceScatter, noRoot, send, recv, op, err, func(x *collective, send, recv []byte) error {
		return x.reduceScatter(send, recv, b)
	})
}

// ReduceScatterInPlace is ReduceScatter where buf holds the contribution before. After the call its first
// counts[Rank()] elements are the result, and the rest is used up. Errors: as Allreduce. (MPI-4.1, chapter
// 6.10.2)
func ReduceScatterInPlace[T any](c *Comm, buf []T, counts []int, op Op[T]) error {
	tmp, s := borrowSlice[int](c.Size())
	defer s.giveBack()
	b, err := shares("buf", c, len(buf), counts, tmp)
	return reduction(c, kindReduceScatter, noRoot, buf, buf, op, err, func(x *collective, send, recv []byte) error {
		return x.reduceScatter(send, recv[:counts[c.rank]*x.t.Size], b)
	})
}

// shares checks that the counts add up to the whole buffer.
func shares(what string, c *Comm, have int, counts []int, tmp []int) (blocks, error) {
	b, err := explicit(what, c.Size(), have, counts, nil, tmp)
	if err != nil {
		return b, err
	}
	total := 0
	for _, k := range counts {
		total += k
	}
	return b, compare(what, have, total)
}

// reduceScatter combines all ranks' block i of send into rank i's recv. recv may be the beginning of send; then
// send is used up.
func (x *collective) reduceScatter(send, recv []byte, b blocks) error {
	if x.c.size == 1 {
		move(recv, send)
		return nil
	}
	rule, err := x.choose(x.bytes)
	if err != nil {
		return err
	}
	if rule.Algorithm == coll.Shared {
		return x.reduceScatterShared(send, recv, b, rule.Segment)
	}
	n, me, k, inPlace := x.c.size, x.c.rank, len(send)/x.t.Size, overlap(send, recv)
	s, known := x.draft(), false
	if b.counts == nil {
		s, known = x.plan(rule, k, inPlace)
	}
	if !known {
		switch a := rule.Algorithm; {
		case a == coll.Central:
			schedule.ReduceScatterCentral(s, me, n, k, b.at)
		case n == 2 && (a == coll.Pairwise || a == coll.Halving):
			schedule.ReduceScatterTwo(s, me, b.at, inPlace, x.commutes, x.pieces(rule.Segment))
		case a == coll.Pairwise:
			schedule.ReduceScatter(s, me, n, b.at)
		case a == coll.Halving:
			schedule.ReduceScatterHalving(s, me, n, k, b.at, x.commutes, x.pieces(rule.Segment))
		case a == coll.Ring && x.commutes:
			schedule.ReduceScatterRing(s, me, n, k, b.at)
		default:
			schedule.ReduceScatterDoubling(s, me, n, k, b.at)
		}
	}
	return x.carry(s, send, recv)
}

// reduceScatterShared combines short buffers on one rank. Otherwise all ranks post the same part of all blocks
// at once, and each takes its own block from all boards. recv may be the beginning of send: it never grows
// beyond what was posted.
func (x *collective) reduceScatterShared(send, recv []byte, b blocks, segment int) error {
	n, me, size := x.c.size, x.c.rank, x.t.Size
	if c := x.combinesOnce(reduceScatterOnce); c != nil {
		lo, _ := b.at(me)
		return x.foldOnce(send, recv, lo*size, c)
	}
	longest := 0
	for i := range n {
		lo, hi := b.at(i)
		longest = max(longest, (hi-lo)*size)
	}
	most := x.piece(segment) / size * size
	where := x.combiner(min(longest, most/size/n*size))
	s := borrow(most)
	defer s.giveBack()
	all := s.bytes(most)
	return strips(n, longest/size, most/size, func(off, k int) error {
		off, k = off*size, k*size
		own := min(max(len(recv)-off, 0), k)
		turn := engine.Turn{Need: engine.Everybody, Want: n * k, Off: me * k, Len: own, Into: all, Stride: own}
		if turn.Combine = where; where != nil && own > 0 {
			turn.Into = recv[off:]
		}
		if b.counts == nil {
			turn.Send, turn.SendStride, turn.SendLen = send[off:], longest, k
			turn.Own = true
		} else { // shorter blocks are padded
			for i := range n {
				lo, hi := b.at(i)
				lo, hi = lo*size, hi*size
				copy(all[i*k:(i+1)*k], send[min(lo+off, hi):min(lo+off+k, hi)])
			}
			turn.Send = all[:n*k]
		}
		if err := x.take(turn); err != nil || own == 0 || where != nil {
			return err
		}
		x.fold(all, own, n)
		copy(recv[off:], all[:own])
		return nil
	})
}
